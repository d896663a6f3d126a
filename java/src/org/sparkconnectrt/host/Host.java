package org.sparkconnectrt.host;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.EOFException;
import java.io.IOException;
import java.nio.file.Path;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import org.apache.kafka.connect.util.ConnectorTaskId;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The JVM beside a slot's Python process, or beside a worker: hosts Java tasks, or connectors.
 * Started as {@code java ... org.sparkconnectrt.host.Host SOCKET}; lives as long as the socket.
 */
public final class Host {
  static final int PYTHON_GONE = 9;
  private static final Logger log = LoggerFactory.getLogger(Host.class);

  private Host() {}

  /** Connects to the socket of the one argument and serves it until its other side is gone. */
  public static void main(String[] args) throws IOException {
    Wire wire = Wire.connect(Path.of(args[0]));
    Runtime.getRuntime().addShutdownHook(new Thread(() -> lastWords(wire), "last-words"));
    try {
      serve(wire);
    } catch (EOFException gone) {
      exit(PYTHON_GONE);
    }
  }

  /** Ends this JVM at once, whatever its tasks do. */
  static void exit(int code) {
    Runtime.getRuntime().halt(code);
  }

  private static void serve(Wire wire) throws IOException {
    Wire.Frame hello = wire.read();
    Logs.install(wire, hello.head().path("loggers"));
    Home home = new Home(wire, Hosted.strings(hello.head().get("worker")));
    Connectors connectors = new Connectors(home);
    Stages stages = new Stages(home);
    ObjectNode ready = Wire.JSON.createObjectNode();
    ready.put("java", System.getProperty("java.version"));
    ready.put("pid", ProcessHandle.current().pid());
    wire.write('H', 0, ready);
    Heartbeat.start(home);
    ExecutorService starting = Executors.newCachedThreadPool(Host::daemon);
    while (true) {
      Wire.Frame frame = wire.read();
      switch (frame.kind()) {
        case 'S' -> {
          home.expect(frame.host());
          starting.execute(() -> start(home, frame));
        }
        case 'Q' -> connectors.serve(frame);
        case 'T' -> stages.serve(frame);
        case 'L' -> Logs.levels(frame.head());
        case 'K' -> wire.write('K', 0, Threads.stacks(frame.head().asText()));
        default -> home.deliver(frame);
      }
    }
  }

  private static void start(Home home, Wire.Frame frame) {
    JsonNode start = frame.head();
    int host = frame.host();
    try (var making = home.make(host)) {
      ConnectorTaskId id =
          new ConnectorTaskId(start.get("name").asText(), start.get("number").asInt());
      Thread.currentThread().setName("task-" + id); // whose stack is asked for when this hangs
      home.add(
          start.get("sink").asBoolean()
              ? new SinkHosted(home, host, id, start)
              : new SourceHosted(home, host, id, start));
    } catch (Throwable error) { // classes of plug-ins may raise anything when they are loaded
      home.forget(host);
      try {
        home.wire.write('F', host, Hosted.failure(error));
        home.wire.write('E', host, null);
      } catch (IOException gone) {
        exit(PYTHON_GONE);
      }
    } finally {
      Thread.currentThread().setName("start");
    }
  }

  private static Thread daemon(Runnable work) {
    Thread thread = new Thread(work, "start");
    thread.setDaemon(true);
    return thread;
  }

  /** A plug-in called System.exit: names its thread, while the socket is still there. */
  private static void lastWords(Wire wire) {
    for (Map.Entry<Thread, StackTraceElement[]> one : Thread.getAllStackTraces().entrySet()) {
      for (StackTraceElement line : one.getValue()) {
        if (line.getClassName().equals("java.lang.Runtime")
            && line.getMethodName().equals("exit")) {
          try {
            wire.write('W', 0, Threads.stack(one.getKey(), one.getValue()));
          } catch (IOException gone) {
            log.debug("nothing reads the last words", gone);
          }
        }
      }
    }
  }
}
