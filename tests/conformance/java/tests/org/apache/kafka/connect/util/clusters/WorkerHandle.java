package org.apache.kafka.connect.util.clusters;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;

/**
 * Starts one of our workers as a process where Kafka's tests start a worker within their JVM.
 *
 * <p>It stands before Kafka's test jar on the class path and has the methods that EmbeddedConnect
 * and EmbeddedConnectCluster of Kafka 4.1 call. System properties: worker.command (words separated
 * by blanks; the worker's file is appended), worker.dir (a folder for each worker), worker.plugins
 * (plugin.path).
 */
public class WorkerHandle {
  private static final AtomicInteger COUNT = new AtomicInteger();
  private static final HandleServer HANDLES = HandleServer.start();

  private final String name;
  private final Process process;
  private final URI url;
  private final CompletableFuture<Object> ended = new CompletableFuture<>();

  private WorkerHandle(String name, Process process, URI url, Path folder) {
    this.name = name;
    this.process = process;
    this.url = url;
    process
        .onExit()
        .thenAccept(
            p ->
                ended.completeExceptionally(
                    new RuntimeException(
                        "the worker ended with " + p.exitValue() + ", see " + folder)));
  }

  public static WorkerHandle start(String name, Map<String, String> properties) {
    try {
      int port = freePort();
      Path folder =
          Path.of(
              System.getProperty("worker.dir"),
              String.format("%03d-%s", COUNT.incrementAndGet(), name));
      Files.createDirectories(folder);
      Properties settings = new Properties();
      settings.putAll(properties);
      settings.setProperty("listeners", "http://localhost:" + port);
      settings.setProperty("rest.advertised.host.name", "localhost");
      String asked = settings.getProperty("plugin.path", "");
      settings.setProperty(
          "plugin.path",
          System.getProperty("worker.plugins") + (asked.isEmpty() ? "" : "," + asked));
      if ("hybrid_fail".equals(settings.getProperty("plugin.discovery"))) {
        settings.setProperty("plugin.discovery", "service_load");
      }
      Path file = folder.resolve("worker.properties");
      try (var writer = Files.newBufferedWriter(file, StandardCharsets.UTF_8)) {
        settings.store(writer, name);
      }
      String[] words = (System.getProperty("worker.command") + " " + file).trim().split("\\s+");
      ProcessBuilder builder =
          new ProcessBuilder(words).directory(folder.toFile()).redirectErrorStream(true);
      builder.environment().put("CONNECTRT_HANDLES_PORT", Integer.toString(HANDLES.port()));
      Process process = builder.redirectOutput(folder.resolve("worker.log").toFile()).start();
      Runtime.getRuntime().addShutdownHook(new Thread(process::destroy));
      awaitListening(process, port);
      return new WorkerHandle(name, process, URI.create("http://localhost:" + port + "/"), folder);
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
  }

  /** Waits as a Java worker's start does, until REST listens; also until the process has ended. */
  private static void awaitListening(Process process, int port) {
    long endNanos = System.nanoTime() + TimeUnit.SECONDS.toNanos(60);
    while (process.isAlive() && System.nanoTime() < endNanos) {
      try (var socket = new Socket(InetAddress.getByName("localhost"), port)) {
        return;
      } catch (IOException notYet) {
        LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(50));
      }
    }
  }

  private static int freePort() throws IOException {
    try (ServerSocket socket = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
      return socket.getLocalPort();
    }
  }

  public void stop() {
    process.destroy();
    try {
      if (!process.waitFor(60, TimeUnit.SECONDS)) {
        process.destroyForcibly();
      }
    } catch (InterruptedException error) {
      throw new RuntimeException(error);
    }
  }

  public Future<?> herderTask() {
    return ended;
  }

  public URI url() {
    return url;
  }

  public URI adminUrl() {
    return url;
  }

  public void requestTimeout(long timeoutMs) {}

  public void resetRequestTimeout() {}

  @Override
  public String toString() {
    return "WorkerHandle{" + name + " " + url + "}";
  }
}
