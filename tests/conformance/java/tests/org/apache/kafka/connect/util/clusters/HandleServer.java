package org.apache.kafka.connect.util.clusters;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.Collectors;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.connect.integration.BlockingConnectorTest.Block;
import org.apache.kafka.connect.integration.ConnectorHandle;
import org.apache.kafka.connect.integration.RuntimeHandles;
import org.apache.kafka.connect.integration.TaskHandle;
import org.apache.kafka.connect.sink.SinkRecord;

/**
 * Takes what test connectors report from the worker's JVMs, and tells it to the handles that the
 * tests look at.
 *
 * <p>The other end is HandleReports, which describes a report. One thread serves one JVM.
 */
final class HandleServer {
  private final ServerSocket listening;
  private final Map<String, Block> blocks = new ConcurrentHashMap<>();

  private HandleServer(ServerSocket listening) {
    this.listening = listening;
  }

  static HandleServer start() {
    try {
      HandleServer server =
          new HandleServer(new ServerSocket(0, 50, InetAddress.getLoopbackAddress()));
      onThread("handle-reports", server::accept);
      return server;
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
  }

  int port() {
    return listening.getLocalPort();
  }

  private void accept() {
    while (true) {
      try {
        Socket socket = listening.accept();
        onThread("handle-reports-" + socket.getPort(), () -> serve(socket));
      } catch (IOException error) {
        throw new UncheckedIOException(error);
      }
    }
  }

  private void serve(Socket socket) {
    Handles handles = new Handles();
    try (socket) {
      var in =
          new BufferedReader(
              new InputStreamReader(socket.getInputStream(), StandardCharsets.US_ASCII));
      OutputStream out = socket.getOutputStream();
      for (String line = in.readLine(); line != null; line = in.readLine()) {
        apply(words(line), handles);
        out.write(1);
        out.flush();
      }
    } catch (IOException error) {
      return; // the worker's JVM ended
    }
  }

  private static String[] words(String line) {
    return Arrays.stream(line.split("\t", -1))
        .map(word -> new String(Base64.getDecoder().decode(word), StandardCharsets.UTF_8))
        .toArray(String[]::new);
  }

  private void apply(String[] report, Handles handles) {
    switch (report[0]) {
      case "connector-start" -> handles.startedConnector(report).recordConnectorStart();
      case "connector-stop" -> handles.connector(report).recordConnectorStop();
      case "connector-records" -> handles.connector(report).record(Integer.parseInt(report[2]));
      case "connector-commits" -> handles.connector(report).commit(Integer.parseInt(report[2]));
      case "task-start" -> handles.startedTask(report).recordTaskStart();
      case "task-stop" -> handles.task(report).recordTaskStop();
      case "records" -> handles.task(report).record(Integer.parseInt(report[3]));
      case "commits" -> handles.task(report).commit(Integer.parseInt(report[3]));
      case "sink-record" -> handles.task(report).record(sinkRecord(report));
      case "assigned" -> handles.task(report).partitionsAssigned(partitions(report[3]));
      case "revoked" -> handles.task(report).partitionsRevoked(partitions(report[3]));
      case "committed" -> handles.task(report).partitionsCommitted(partitions(report[3]));
      case "will-block" -> blocks.put(report[1], new Block(report[1]));
      case "blocks" -> {
        Block block = blocks.get(report[1]);
        onThread("blocked-" + report[1], () -> block.maybeBlockOn(report[1]));
      }
      default -> throw new IllegalStateException("unknown report " + report[0]);
    }
  }

  /**
   * The handles of one JVM's connectors and tasks. As a connector in the tests' JVM would, each
   * keeps the handle that it found when it started: what one reports after its test has forgotten
   * the handle must not make another, which the next test would take for its own.
   */
  private static final class Handles {
    private final Map<String, ConnectorHandle> connectors = new HashMap<>();
    private final Map<String, TaskHandle> tasks = new HashMap<>();

    ConnectorHandle startedConnector(String[] report) {
      connectors.remove(report[1]);
      return connector(report);
    }

    TaskHandle startedTask(String[] report) {
      tasks.remove(report[2]);
      return task(report);
    }

    ConnectorHandle connector(String[] report) {
      return connectors.computeIfAbsent(
          report[1], name -> RuntimeHandles.get().connectorHandle(name));
    }

    TaskHandle task(String[] report) {
      return tasks.computeIfAbsent(
          report[2], id -> RuntimeHandles.get().connectorHandle(report[1]).taskHandle(id));
    }
  }

  private static SinkRecord sinkRecord(String[] report) {
    Object value = report[6].isEmpty() ? null : report[6].substring(1);
    return new SinkRecord(
        report[3], Integer.parseInt(report[4]), null, null, null, value, Long.parseLong(report[5]));
  }

  private static List<TopicPartition> partitions(String names) {
    return Arrays.stream(names.split(","))
        .filter(name -> !name.isEmpty())
        .map(name -> name.split(":"))
        .map(parts -> new TopicPartition(parts[0], Integer.parseInt(parts[1])))
        .collect(Collectors.toList());
  }

  private static void onThread(String name, Runnable work) {
    Thread thread = new Thread(work, name);
    thread.setDaemon(true);
    thread.start();
  }
}
