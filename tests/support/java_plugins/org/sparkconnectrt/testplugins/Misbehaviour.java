package org.sparkconnectrt.testplugins;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.errors.RetriableException;

/**
 * What a test plug-in does wrong, and in which call: {@code misbehave=poll:hang,stop:throw} or,
 * from the third call on, {@code poll:exit@3}; only in task 1: {@code poll:exit#1}.
 */
public final class Misbehaviour {
  public static final String SETTING = "misbehave";
  public static final String TASK = "task.number";
  private static final List<Object> KEPT = new ArrayList<>();

  private final Map<String, String> deeds = new HashMap<>();
  private final Map<String, Long> from = new HashMap<>();
  private final Map<String, Long> calls = new HashMap<>();

  /** Reads the setting of a connector, task, converter or transformation. */
  public Misbehaviour(Map<String, ?> config) {
    Object setting = config.get(SETTING);
    for (String one : setting == null ? new String[0] : setting.toString().split(",")) {
      if (one.isBlank()) {
        continue;
      }
      String[] task = one.strip().split("#");
      if (task.length > 1 && !task[1].equals(config.get(TASK))) {
        continue;
      }
      String[] call = task[0].split("@");
      String[] parts = call[0].split(":");
      deeds.put(parts[0], parts[1]);
      from.put(parts[0], call.length > 1 ? Long.parseLong(call[1]) : 1L);
    }
  }

  /**
   * Is called at the begin of every method; returns whether the method shall answer nonsense
   * (null).
   */
  public boolean in(String method) {
    String deed = deeds.get(method);
    long call;
    synchronized (calls) {
      call = calls.merge(method, 1L, Long::sum);
    }
    return deed != null && call >= from.get(method) && does(deed);
  }

  /** Returns whether a method has this deed, which it does itself. */
  public boolean has(String method, String deed) {
    return deed.equals(deeds.get(method)) && calls.getOrDefault(method, 1L) >= from.get(method);
  }

  private static boolean does(String deed) {
    switch (deed) {
      case "hang" -> sleep(Long.MAX_VALUE);
      case "swallow" -> sleepWhatever();
      case "spin" -> spin();
      case "slow" -> sleep(1_000);
      case "throw" -> throw new IllegalStateException("misbehaves on purpose");
      case "connect" -> throw new ConnectException("misbehaves on purpose");
      case "config" -> throw new ConfigException("misbehave", "x", "misbehaves on purpose");
      case "retriable" -> throw new RetriableException("misbehaves on purpose");
      case "checked" ->
          Misbehaviour.<RuntimeException>raise(new IOException("misbehaves on purpose"));
      case "error" -> throw new AssertionError("misbehaves on purpose");
      case "missing" -> throw new NoClassDefFoundError("no/such/Driver");
      case "overflow" -> overflow(0);
      case "memory" -> fillHeap();
      case "thrash" -> thrash();
      case "direct" -> fillDirect();
      case "exit" -> System.exit(7);
      case "halt" -> Runtime.getRuntime().halt(8);
      case "leak" -> leak();
      case "print" -> {
        System.out.println("printed by a plug-in");
        System.err.println("complained by a plug-in");
      }
      case "null" -> {
        return true;
      }
      default -> { // the method does it itself
      }
    }
    return false;
  }

  @SuppressWarnings("unchecked")
  private static <E extends Throwable> void raise(Throwable error) throws E {
    throw (E) error;
  }

  private static void sleep(long millis) {
    try {
      Thread.sleep(millis);
    } catch (InterruptedException end) {
      throw new ConnectException("interrupted", end);
    }
  }

  private static void sleepWhatever() {
    while (true) {
      try {
        Thread.sleep(Long.MAX_VALUE);
      } catch (InterruptedException ignored) {
        // goes on, on purpose
      }
    }
  }

  private static void spin() {
    while (KEPT.size() < Integer.MAX_VALUE) {
      Thread.onSpinWait();
    }
  }

  private static int overflow(int depth) {
    return overflow(depth + 1) + 1;
  }

  private static void fillHeap() {
    while (true) {
      KEPT.add(new byte[8 << 20]);
    }
  }

  /** Leaves so little of the heap that it is collected all the time, but never runs out. */
  private static void thrash() {
    List<byte[]> held = new ArrayList<>();
    while (leftBytes() > 1 << 20) {
      held.add(new byte[64 << 10]);
      if (leftBytes() < 3 << 19) {
        System.gc();
      }
    }
    while (!held.isEmpty()) {
      held.set(0, new byte[16 << 10]);
    }
  }

  private static long leftBytes() {
    Runtime jvm = Runtime.getRuntime();
    return jvm.maxMemory() - jvm.totalMemory() + jvm.freeMemory();
  }

  private static void fillDirect() {
    while (true) {
      KEPT.add(ByteBuffer.allocateDirect(8 << 20));
    }
  }

  private static void leak() {
    for (int number = 0; number < 20; number++) {
      Thread left = new Thread(Misbehaviour::sleepWhatever, "left-" + number);
      left.setDaemon(false);
      left.start();
    }
  }
}
