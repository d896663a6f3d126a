package org.sparkconnectrt.testplugins;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigDef.Importance;
import org.apache.kafka.common.config.ConfigDef.Type;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.sink.SinkConnector;

/** Writes values to a file, a line each; and whatever else {@link Misbehaviour} is asked for. */
public final class MisbehavingSink extends SinkConnector {
  static final ConfigDef DEFINITION =
      new ConfigDef()
          .define("file", Type.STRING, "", Importance.HIGH, "Where values go; empty: nowhere.")
          .define(Misbehaviour.SETTING, Type.STRING, "", Importance.LOW, "method:deed, ...");

  private Map<String, String> config = Map.of();
  private Misbehaviour does = new Misbehaviour(Map.of());

  @Override
  public String version() {
    return "1.0";
  }

  @Override
  public void start(Map<String, String> props) {
    config = props;
    does = new Misbehaviour(props);
    does.in("connector.start");
    if (does.has("connector.start", "raise")) {
      context().raiseError(new IllegalStateException("raised on purpose"));
    }
  }

  @Override
  public Class<? extends Task> taskClass() {
    return MisbehavingSinkTask.class;
  }

  @Override
  public List<Map<String, String>> taskConfigs(int most) {
    if (does.in("taskConfigs")) {
      return null;
    }
    List<Map<String, String>> all = new ArrayList<>();
    for (int number = 0; number < most; number++) {
      Map<String, String> one = new HashMap<>(config);
      one.put(Misbehaviour.TASK, String.valueOf(number));
      all.add(one);
    }
    return all;
  }

  @Override
  public ConfigDef config() {
    return DEFINITION;
  }

  @Override
  public void stop() {
    does.in("connector.stop");
  }
}
