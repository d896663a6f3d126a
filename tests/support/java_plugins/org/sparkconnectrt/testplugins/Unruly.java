package org.sparkconnectrt.testplugins;

import java.util.List;
import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.source.SourceConnector;

/**
 * Misbehaves before it has a configuration: its class says in which call, and how. No service file of
 * the jar names these classes.
 */
public abstract class Unruly extends SourceConnector {
  /** See its name. */
  public static final class HangsInVersion extends Unruly {}

  /** See its name. */
  public static final class HangsInTaskClass extends Unruly {}

  /** See its name. */
  public static final class HangsInConfig extends Unruly {}

  /** See its name. */
  public static final class ThrowsInVersion extends Unruly {}

  /** See its name. */
  public static final class ThrowsInTaskClass extends Unruly {}

  /** See its name. */
  public static final class ThrowsInConfig extends Unruly {}

  private void in(String call) {
    String name = getClass().getSimpleName();
    if (name.endsWith("In" + call)) {
      String deed = name.startsWith("Hangs") ? "swallow" : "throw";
      new Misbehaviour(Map.of(Misbehaviour.SETTING, "here:" + deed)).in("here");
    }
  }

  @Override
  public String version() {
    in("Version");
    return "1.0";
  }

  @Override
  public void start(Map<String, String> props) {}

  @Override
  public Class<? extends Task> taskClass() {
    in("TaskClass");
    return MisbehavingSourceTask.class;
  }

  @Override
  public List<Map<String, String>> taskConfigs(int most) {
    return List.of();
  }

  @Override
  public void stop() {}

  @Override
  public ConfigDef config() {
    in("Config");
    return new ConfigDef();
  }
}
