package org.sparkconnectrt.host;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Consumer;
import org.apache.kafka.connect.errors.ConnectException;

/** What a plug-in asks of Python and waits for: each question has a number. Any thread. */
final class Questions {
  private final String about;
  private final Consumer<ObjectNode> ask;
  private final AtomicLong numbers = new AtomicLong();
  private final Map<Long, CompletableFuture<JsonNode>> open = new ConcurrentHashMap<>();
  private volatile boolean ended;

  /** {@code ask} sends a question, which holds its number; {@link #answered} takes its answer. */
  Questions(String about, Consumer<ObjectNode> ask) {
    this.about = about;
    this.ask = ask;
  }

  /** Returns the answer. Raises ConnectException: it is an error, or the task ends before. */
  JsonNode answer(ObjectNode question) {
    long number = numbers.incrementAndGet();
    question.put("question", number);
    CompletableFuture<JsonNode> answer = new CompletableFuture<>();
    open.put(number, answer);
    try {
      if (ended) {
        throw new ConnectException("the task has ended: no " + about + " can be read");
      }
      ask.accept(question);
      return answer.get();
    } catch (InterruptedException error) {
      Thread.currentThread().interrupt();
      throw new ConnectException("interrupted while reading " + about, error);
    } catch (ExecutionException error) {
      throw new ConnectException(error.getCause().getMessage(), error.getCause());
    } finally {
      open.remove(number);
    }
  }

  /**
   * Takes in the answer to a question: {"question": n, "error": text}, or with what was asked for.
   */
  void answered(JsonNode answer) {
    CompletableFuture<JsonNode> waiting = open.get(answer.get("question").asLong());
    if (waiting == null) {
      return;
    }
    if (answer.has("error")) {
      waiting.completeExceptionally(new ConnectException(answer.get("error").asText()));
    } else {
      waiting.complete(answer);
    }
  }

  /** Nobody answers any more. */
  void end() {
    ended = true;
    open.values()
        .forEach(one -> one.completeExceptionally(new ConnectException("the task is to stop")));
  }
}
