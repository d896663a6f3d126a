package org.sparkconnectrt.testplugins;

import java.util.List;
import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.source.ConnectorTransactionBoundaries;
import org.apache.kafka.connect.source.ExactlyOnceSupport;
import org.apache.kafka.connect.source.SourceConnector;

/**
 * A source of one task that does what the setting {@code script} says, see {@link
 * ObedientSourceTask}.
 */
public final class ObedientSource extends SourceConnector {
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
    return ObedientSourceTask.class;
  }

  @Override
  public List<Map<String, String>> taskConfigs(int maxTasks) {
    return List.of(config);
  }

  @Override
  public ExactlyOnceSupport exactlyOnceSupport(Map<String, String> props) {
    return ExactlyOnceSupport.SUPPORTED;
  }

  @Override
  public ConnectorTransactionBoundaries canDefineTransactionBoundaries(Map<String, String> props) {
    return ConnectorTransactionBoundaries.SUPPORTED;
  }

  @Override
  public void stop() {}

  @Override
  public ConfigDef config() {
    return new ConfigDef()
        .define("script", ConfigDef.Type.STRING, ConfigDef.Importance.HIGH, "what the task does")
        .define(
            "file",
            ConfigDef.Type.STRING,
            ConfigDef.Importance.HIGH,
            "where it notes what was done to it");
  }
}
