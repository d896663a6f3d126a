package org.sparkconnectrt.testplugins;

import java.util.Collections;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigDef.Importance;
import org.apache.kafka.common.config.ConfigDef.Type;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.sink.SinkConnector;

/** Its tasks do what the records say: {@link ObedientSinkTask}. */
public final class ObedientSink extends SinkConnector {
  private Map<String, String> config = Map.of();

  @Override
  public String version() {
    return "1.0";
  }

  @Override
  public void start(Map<String, String> props) {
    config = props;
  }

  @Override
  public Class<? extends Task> taskClass() {
    return ObedientSinkTask.class;
  }

  @Override
  public List<Map<String, String>> taskConfigs(int most) {
    return Collections.nCopies(most, config);
  }

  @Override
  public ConfigDef config() {
    return new ConfigDef().define("file", Type.STRING, Importance.HIGH, "Where its notes go.");
  }

  @Override
  public void stop() {}
}
