package org.sparkconnectrt.host;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

/** What threads are doing, to find out why a task does not move. */
final class Threads {
  private Threads() {}

  /** Returns [{"thread": name, "stack": [...]}] of the threads whose name begins so. */
  static ArrayNode stacks(String prefix) {
    ArrayNode found = Wire.JSON.createArrayNode();
    Thread.getAllStackTraces()
        .forEach(
            (thread, stack) -> {
              if (thread.getName().startsWith(prefix)) {
                found.add(stack(thread, stack));
              }
            });
    return found;
  }

  static ObjectNode stack(Thread thread, StackTraceElement[] stack) {
    ObjectNode head = Wire.JSON.createObjectNode();
    head.put("thread", thread.getName());
    ArrayNode lines = head.putArray("stack");
    for (StackTraceElement line : stack) {
      lines.add(line.toString());
    }
    return head;
  }

  /** Returns the innermost line that is not the JDK's own. */
  static String plugInLine(StackTraceElement[] stack) {
    for (StackTraceElement line : stack) {
      if (!line.getClassName().startsWith("java.") && !line.getClassName().startsWith("jdk.")) {
        return line.toString();
      }
    }
    return stack.length == 0 ? "no code" : stack[0].toString();
  }
}
