package org.apache.kafka.connect.integration;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.Base64;

/**
 * Sends what test connectors report about themselves to the JVM that runs the tests.
 *
 * <p>A report is one line of words separated by tabs; each word is Base64, so that it may hold any
 * character. Each report is acknowledged by one byte, so a test never sees a later fact before an
 * earlier one. The port is in CONNECTRT_HANDLES_PORT.
 */
final class HandleReports {
  private static Socket socket;

  private HandleReports() {}

  static synchronized void send(String... words) {
    StringBuilder line = new StringBuilder();
    for (String word : words) {
      byte[] bytes = word.getBytes(StandardCharsets.UTF_8);
      line.append(line.length() == 0 ? "" : "\t").append(Base64.getEncoder().encodeToString(bytes));
    }
    try {
      if (socket == null) {
        int port = Integer.parseInt(System.getenv("CONNECTRT_HANDLES_PORT"));
        socket = new Socket(InetAddress.getLoopbackAddress(), port);
        socket.setTcpNoDelay(true);
      }
      OutputStream out = socket.getOutputStream();
      out.write(line.append('\n').toString().getBytes(StandardCharsets.US_ASCII));
      out.flush();
      InputStream in = socket.getInputStream();
      if (in.read() < 0) {
        throw new IOException("the tests closed the connection");
      }
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
  }
}
