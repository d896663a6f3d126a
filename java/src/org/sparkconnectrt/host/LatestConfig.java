package org.sparkconnectrt.host;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.Map;

/**
 * A task's configuration as it is now, for its context: a reference to a secret that has changed
 * since the task was started gives the new one, as in Java (ClusterConfigState.taskConfig). Python
 * replaces the references. Any thread.
 */
final class LatestConfig {
  private final Map<String, String> begun;
  private final boolean refers;
  private final Questions questions;

  /** {@code start}: of the frame; it says whether the configuration has references at all. */
  LatestConfig(Hosted<?, ?> task, JsonNode start) {
    this.begun = task.taskConfig;
    this.refers = start.path("refers").asBoolean();
    this.questions = new Questions("configuration", question -> task.send('C', question));
  }

  /** Returns it. Raises ConnectException: a provider refuses, or the task has ended. */
  Map<String, String> get() {
    return refers
        ? Hosted.strings(questions.answer(Wire.JSON.createObjectNode()).get("config"))
        : begun;
  }

  void answered(JsonNode answer) {
    questions.answered(answer);
  }

  void end() {
    questions.end();
  }
}
