package org.sparkconnectrt.host;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.connect.connector.ConnectRecord;
import org.apache.kafka.connect.transforms.Transformation;
import org.apache.kafka.connect.transforms.predicates.Predicate;

/**
 * Transformations that follow each other in a Python connector's chain, each behind its predicate.
 */
final class ChainStage implements Stages.Stage {
  private final Home home;
  private final boolean sink;
  private final List<Step> steps = new ArrayList<>();
  private final List<AutoCloseable> measuring = new ArrayList<>();
  private final Rows rows = new Rows();

  /** One of them; without a transformation it is asked for its predicate only. */
  private record Step(Transformation<?> transformation, Predicate<?> predicate, boolean negate) {}

  ChainStage(Stages stages, Home home, JsonNode asked) throws Exception {
    this.home = home;
    this.sink = asked.path("sink").asBoolean();
    for (JsonNode one : asked.get("steps")) {
      Transformation<?> transformation = null;
      Predicate<?> predicate = null;
      if (one.hasNonNull("transformation")) {
        Map<String, String> config = Hosted.strings(one.get("transformation").path("config"));
        Transformation<?> made = stages.newPlugin(one.get("transformation"), Transformation.class);
        stages.configure(made, config, () -> made.configure(config));
        measuring.add(stages.measuring(made));
        transformation = made;
      }
      if (one.hasNonNull("predicate")) {
        Map<String, String> config = Hosted.strings(one.get("predicate").path("config"));
        Predicate<?> made = stages.newPlugin(one.get("predicate"), Predicate.class);
        stages.configure(made, config, () -> made.configure(config));
        measuring.add(stages.measuring(made));
        predicate = made;
      }
      steps.add(new Step(transformation, predicate, one.path("negate").asBoolean()));
    }
  }

  @Override
  public List<ByteBuffer> answer(String op, Wire.Frame asked, ObjectNode answer) {
    Consumed given = new Consumed(asked.head(), asked.data());
    return op.equals("test") ? tested(given, answer) : applied(given, answer);
  }

  private List<ByteBuffer> applied(Consumed given, ObjectNode answer) {
    Columns columns = new Columns("");
    Stages.Outcome outcome = new Stages.Outcome();
    Map<String, Integer> topics = new LinkedHashMap<>();
    ArrayNode topicOf = Wire.JSON.createArrayNode();
    ArrayNode failedSteps = Wire.JSON.createArrayNode();
    while (given.next()) {
      int at = 0;
      try {
        ConnectRecord<?> record = rows.record(given.record(), sink);
        for (; record != null && at < steps.size(); at++) {
          record = passed(steps.get(at), record);
        }
        if (record == null) {
          outcome.dropped();
        } else {
          rows.add(columns, record);
          topicOf.add(topics.computeIfAbsent(record.topic(), topic -> topics.size()));
          outcome.kept();
        }
      } catch (Throwable error) { // plug-in code: this record's failure
        outcome.failed(error);
        failedSteps.add(Math.min(at, steps.size() - 1));
      }
    }
    outcome.write(answer);
    answer.set("topics", Wire.JSON.valueToTree(topics.keySet()));
    if (topics.size() > 1) {
      answer.set("topic_of", topicOf);
    }
    if (!failedSteps.isEmpty()) {
      answer.set("failed_steps", failedSteps);
    }
    List<ByteBuffer> data = new ArrayList<>();
    columns.write(answer.putObject("section"), data);
    return data;
  }

  @SuppressWarnings({"unchecked", "rawtypes"})
  private ConnectRecord<?> passed(Step step, ConnectRecord<?> record) {
    if (step.predicate() != null && test(step.predicate(), record) == step.negate()) {
      return record;
    }
    Transformation transformation = step.transformation();
    try (var swap = home.plugins.withClassLoader(transformation.getClass().getClassLoader())) {
      return (ConnectRecord<?>) transformation.apply(record);
    }
  }

  @SuppressWarnings({"unchecked", "rawtypes"})
  private boolean test(Predicate predicate, ConnectRecord<?> record) {
    try (var swap = home.plugins.withClassLoader(predicate.getClass().getClassLoader())) {
      return predicate.test(record);
    }
  }

  private List<ByteBuffer> tested(Consumed given, ObjectNode answer) {
    ArrayNode answers = answer.putArray("ok");
    Stages.Outcome outcome = new Stages.Outcome();
    while (given.next()) {
      try {
        answers.add(test(steps.get(0).predicate(), rows.record(given.record(), sink)));
        outcome.kept();
      } catch (Throwable error) { // plug-in code: this record's failure
        answers.addNull();
        outcome.failed(error);
      }
    }
    outcome.write(answer);
    return List.of();
  }

  @Override
  public void close() {
    measuring.forEach(
        one -> Utils.closeQuietly(one, "transformation or predicate")); // closes these, too
  }
}
