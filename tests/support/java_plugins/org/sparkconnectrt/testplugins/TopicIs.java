package org.sparkconnectrt.testplugins;

import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigDef.Importance;
import org.apache.kafka.common.config.ConfigDef.Type;
import org.apache.kafka.connect.components.Versioned;
import org.apache.kafka.connect.connector.ConnectRecord;
import org.apache.kafka.connect.transforms.predicates.Predicate;

/** Whether a record is for one topic. */
public final class TopicIs<R extends ConnectRecord<R>> implements Predicate<R>, Versioned {
  private String topic = "";

  @Override
  public String version() {
    return "1.0";
  }

  @Override
  public ConfigDef config() {
    return new ConfigDef()
        .define(
            "topic", Type.STRING, ConfigDef.NO_DEFAULT_VALUE, Importance.HIGH, "The topic's name.");
  }

  @Override
  public void configure(Map<String, ?> configs) {
    topic = (String) config().parse(configs).get("topic");
  }

  @Override
  public boolean test(R record) {
    return topic.equals(record.topic());
  }

  @Override
  public void close() {}
}
