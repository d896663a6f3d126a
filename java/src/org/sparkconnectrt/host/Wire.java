package org.sparkconnectrt.host;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.EOFException;
import java.io.IOException;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.SocketChannel;
import java.nio.file.Path;
import org.apache.kafka.connect.errors.ConnectException;

/**
 * Frames over one Unix socket, both ways: {@code int32 length | byte kind | int32 host | int32 head
 * length | head | data}, little endian. The head is JSON, the data raw column buffers. One thread
 * reads; any thread writes, a frame at a time.
 *
 * <p>Both ways go through a direct buffer of this class: given a heap buffer, a channel takes a
 * direct one of the size of all that is left of it, at each call, and large ones are not kept.
 */
final class Wire implements AutoCloseable {
  static final ObjectMapper JSON = new ObjectMapper();
  static final int PREFIX_BYTES = 4 + 1 + 4 + 4;
  private static final int LARGEST_FRAME = 1 << 30;
  private static final int CHUNK_BYTES = 128 << 10;

  /** A frame as it was read. */
  record Frame(char kind, int host, JsonNode head, ByteBuffer data) {}

  private final SocketChannel channel;
  private final ByteBuffer in =
      ByteBuffer.allocateDirect(CHUNK_BYTES).limit(0); // read, and not taken yet
  private final FrameBuffers buffers = new FrameBuffers();
  private final ByteBuffer out = ByteBuffer.allocateDirect(CHUNK_BYTES); // guarded by this

  private Wire(SocketChannel channel) {
    this.channel = channel;
  }

  static Wire connect(Path socket) throws IOException {
    SocketChannel channel = SocketChannel.open(StandardProtocolFamily.UNIX);
    channel.connect(UnixDomainSocketAddress.of(socket));
    return new Wire(channel);
  }

  /** Returns the next frame. Raises EOFException when the other side is gone. */
  Frame read() throws IOException {
    ByteBuffer prefix = filled(PREFIX_BYTES);
    int length = prefix.getInt();
    char kind = (char) prefix.get();
    int host = prefix.getInt();
    int headLength = prefix.getInt();
    int rest = length - (PREFIX_BYTES - 4);
    if (headLength < 0 || rest < headLength || rest > LARGEST_FRAME) {
      throw new IOException("a frame of " + length + " bytes with a head of " + headLength);
    }
    ByteBuffer body = filled(rest);
    JsonNode head = headLength == 0 ? JSON.nullNode() : JSON.readTree(body.array(), 0, headLength);
    body.position(headLength);
    return new Frame(kind, host, head, body.slice().order(ByteOrder.LITTLE_ENDIAN));
  }

  private ByteBuffer filled(int bytes) throws IOException {
    byte[] content = buffers.take(bytes);
    int filled = 0;
    while (filled < bytes) {
      if (!in.hasRemaining()) {
        in.clear();
        int count = channel.read(in);
        in.flip();
        if (count < 0) {
          throw new EOFException("the Python side is gone");
        }
      }
      int some = Math.min(in.remaining(), bytes - filled);
      in.get(content, filled, some);
      filled += some;
    }
    return ByteBuffer.wrap(content, 0, bytes).order(ByteOrder.LITTLE_ENDIAN);
  }

  /** Uses a frame's memory for later ones: nobody reads its data any more. */
  void recycle(Frame frame) {
    buffers.give(frame.data().array());
  }

  /**
   * Writes a frame; {@code data} are written one behind the other. Raises IOException when the
   * other side is gone, ConnectException when it is too large.
   */
  void write(char kind, int host, Object head, ByteBuffer... data) throws IOException {
    byte[] json = head == null ? new byte[0] : JSON.writeValueAsBytes(head);
    long length = PREFIX_BYTES - 4L + json.length;
    for (ByteBuffer one : data) {
      length += one.remaining();
    }
    if (length > LARGEST_FRAME) {
      throw new ConnectException(
          "a batch of "
              + length
              + " bytes is too large for a Java host, "
              + LARGEST_FRAME
              + " is the most: have the connector return fewer or smaller records from a poll");
    }
    ByteBuffer start =
        ByteBuffer.allocate(PREFIX_BYTES + json.length).order(ByteOrder.LITTLE_ENDIAN);
    start.putInt((int) length).put((byte) kind).putInt(host).putInt(json.length).put(json).flip();
    synchronized (this) {
      out.clear(); // also of what a frame left that could not be written: the other side is gone
      // then
      fill(start);
      for (ByteBuffer one : data) {
        fill(one);
      }
      drain();
    }
  }

  private void fill(ByteBuffer from) throws IOException {
    while (from.hasRemaining()) {
      int some = Math.min(out.remaining(), from.remaining());
      out.put(from.slice(from.position(), some));
      from.position(from.position() + some);
      if (!out.hasRemaining()) {
        drain();
      }
    }
  }

  private void drain() throws IOException {
    out.flip();
    while (out.hasRemaining()) {
      channel.write(out);
    }
    out.clear();
  }

  @Override
  public void close() throws IOException {
    channel.close();
  }
}
