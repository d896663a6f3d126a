package org.sparkconnectrt.host;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Consumer;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.storage.OffsetStorageReader;

/** Reads stored offsets by asking Python, which asks the driver. Any thread. */
final class DriverOffsets implements OffsetStorageReader {
  private final Home home;
  private final Consumer<ObjectNode> ask;
  private final AtomicLong questions = new AtomicLong();
  private final Map<Long, CompletableFuture<JsonNode>> open = new ConcurrentHashMap<>();
  private volatile boolean ended;

  /** {@code ask} sends a question: {"question": n, "partitions": [...]}; {@link #answered} takes its answer. */
  DriverOffsets(Home home, Consumer<ObjectNode> ask) {
    this.home = home;
    this.ask = ask;
  }

  @Override
  public <T> Map<String, Object> offset(Map<String, T> partition) {
    return offsets(List.of(partition)).get(partition);
  }

  @Override
  public <T> Map<Map<String, T>, Map<String, Object>> offsets(Collection<Map<String, T>> partitions) {
    List<Map<String, T>> asked = new ArrayList<>(partitions);
    ObjectNode question = Wire.JSON.createObjectNode();
    long number = questions.incrementAndGet();
    question.put("question", number);
    ArrayNode list = question.putArray("partitions");
    asked.forEach(one -> list.add(home.json(one)));
    CompletableFuture<JsonNode> answer = new CompletableFuture<>();
    open.put(number, answer);
    if (ended) {
      throw new ConnectException("the task has ended: no offsets can be read");
    }
    ask.accept(question);
    JsonNode found;
    try {
      found = answer.get();
    } catch (InterruptedException error) {
      Thread.currentThread().interrupt();
      throw new ConnectException("interrupted while reading offsets", error);
    } catch (ExecutionException error) {
      throw new ConnectException(error.getCause().getMessage(), error.getCause());
    } finally {
      open.remove(number);
    }
    Map<Map<String, T>, Map<String, Object>> result = new HashMap<>();
    for (int index = 0; index < asked.size(); index++) {
      JsonNode offset = found.path(index);
      result.put(asked.get(index), offset.isNull() ? null : home.mapOf(offset));
    }
    return result;
  }

  /** Takes in the answer to a question: {"question": n, "offsets": [...]} or {"question": n, "error": text}. */
  void answered(JsonNode answer) {
    CompletableFuture<JsonNode> waiting = open.get(answer.get("question").asLong());
    if (waiting == null) {
      return;
    }
    if (answer.has("error")) {
      waiting.completeExceptionally(new ConnectException(answer.get("error").asText()));
    } else {
      waiting.complete(answer.get("offsets"));
    }
  }

  /** Nobody answers any more. */
  void end() {
    ended = true;
    open.values().forEach(one -> one.completeExceptionally(new ConnectException("the task is to stop")));
  }
}
