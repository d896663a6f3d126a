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
 */
final class Wire implements AutoCloseable {
  static final ObjectMapper JSON = new ObjectMapper();
  static final int PREFIX_BYTES = 4 + 1 + 4 + 4;
  private static final int LARGEST_FRAME = 1 << 30;

  /** A frame as it was read. */
  record Frame(char kind, int host, JsonNode head, ByteBuffer data) {}

  private final SocketChannel channel;

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
    ByteBuffer buffer = ByteBuffer.allocate(bytes).order(ByteOrder.LITTLE_ENDIAN);
    while (buffer.hasRemaining()) {
      if (channel.read(buffer) < 0) {
        throw new EOFException("the Python side is gone");
      }
    }
    return buffer.flip();
  }

  /**
   * Writes a frame; {@code data} are written one behind the other. Raises IOException when the other
   * side is gone, ConnectException when it is too large.
   */
  void write(char kind, int host, Object head, ByteBuffer... data) throws IOException {
    byte[] json = head == null ? new byte[0] : JSON.writeValueAsBytes(head);
    long length = PREFIX_BYTES - 4L + json.length;
    for (ByteBuffer one : data) {
      length += one.remaining();
    }
    if (length > LARGEST_FRAME) {
      throw new ConnectException("a batch of " + length + " bytes is too large, " + LARGEST_FRAME + " is the most");
    }
    ByteBuffer start = ByteBuffer.allocate(PREFIX_BYTES + json.length).order(ByteOrder.LITTLE_ENDIAN);
    start.putInt((int) length).put((byte) kind).putInt(host).putInt(json.length).put(json).flip();
    ByteBuffer[] all = new ByteBuffer[data.length + 1];
    all[0] = start;
    System.arraycopy(data, 0, all, 1, data.length);
    synchronized (this) {
      while (all[all.length - 1].hasRemaining() || remaining(all)) {
        channel.write(all);
      }
    }
  }

  private static boolean remaining(ByteBuffer[] all) {
    for (ByteBuffer one : all) {
      if (one.hasRemaining()) {
        return true;
      }
    }
    return false;
  }

  @Override
  public void close() throws IOException {
    channel.close();
  }
}
