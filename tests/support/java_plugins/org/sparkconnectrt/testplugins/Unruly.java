package org.sparkconnectrt.testplugins;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.net.URL;
import java.nio.charset.StandardCharsets;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.source.SourceConnector;

/**
 * Misbehaves before it has a configuration: its class says in which call, and how. Only where a
 * service file names it, which those of the jar do not: a search through all classes would hang.
 */
public abstract class Unruly extends SourceConnector {
  private static final String SERVICES =
      "META-INF/services/org.apache.kafka.connect.source.SourceConnector";

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

  /** See its name. */
  public static final class ExitsInVersion extends Unruly {}

  private static final Map<String, String> DEEDS =
      Map.of("Hangs", "swallow", "Throws", "throw", "Exits", "exit");

  private boolean isNamed() {
    try {
      for (URL services : Collections.list(getClass().getClassLoader().getResources(SERVICES))) {
        try (InputStream content = services.openStream()) {
          if (new String(content.readAllBytes(), StandardCharsets.UTF_8)
              .contains(getClass().getName())) {
            return true;
          }
        }
      }
      return false;
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
  }

  private void in(String call) {
    String name = getClass().getSimpleName();
    if (name.endsWith("In" + call) && isNamed()) {
      String deed = DEEDS.get(name.substring(0, name.indexOf("In")));
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
