package org.sparkconnectrt.host;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;
import org.apache.kafka.connect.storage.OffsetStorageReader;

/** Reads stored offsets by asking Python, which asks the driver. Any thread. */
final class DriverOffsets implements OffsetStorageReader {
  private final Home home;
  private final Questions questions;

  /**
   * {@code ask} sends a question: {"question": n, "partitions": [...]}; {@link #answered} takes its
   * answer.
   */
  DriverOffsets(Home home, Consumer<ObjectNode> ask) {
    this.home = home;
    this.questions = new Questions("offsets", ask);
  }

  @Override
  public <T> Map<String, Object> offset(Map<String, T> partition) {
    return offsets(List.of(partition)).get(partition);
  }

  @Override
  public <T> Map<Map<String, T>, Map<String, Object>> offsets(
      Collection<Map<String, T>> partitions) {
    List<Map<String, T>> asked = new ArrayList<>(partitions);
    ObjectNode question = Wire.JSON.createObjectNode();
    ArrayNode list = question.putArray("partitions");
    asked.forEach(one -> list.add(home.json(one)));
    JsonNode found = questions.answer(question).get("offsets");
    Map<Map<String, T>, Map<String, Object>> result = new HashMap<>();
    for (int index = 0; index < asked.size(); index++) {
      JsonNode offset = found.path(index);
      result.put(asked.get(index), offset.isNull() ? null : home.mapOf(offset));
    }
    return result;
  }

  /**
   * Takes in the answer to a question: {"question": n, "offsets": [...]} or {"question": n,
   * "error": text}.
   */
  void answered(JsonNode answer) {
    questions.answered(answer);
  }

  /** Nobody answers any more. */
  void end() {
    questions.end();
  }
}
