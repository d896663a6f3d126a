package org.sparkconnectrt.testplugins;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.config.Config;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigDef.Importance;
import org.apache.kafka.common.config.ConfigDef.Type;
import org.apache.kafka.common.metrics.Gauge;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.source.ExactlyOnceSupport;
import org.apache.kafka.connect.source.SourceConnector;

/** Numbers, in source partitions; and whatever else {@link Misbehaviour} is asked for. */
public final class MisbehavingSource extends SourceConnector {
  static final ConfigDef DEFINITION =
      new ConfigDef()
          .define("topic", Type.STRING, "numbers", Importance.HIGH, "Where records go.")
          .define(
              "records",
              Type.LONG,
              1000L,
              Importance.HIGH,
              "Of each source partition; -1: endless.")
          .define("batch", Type.INT, 100, Importance.MEDIUM, "Records of one poll.")
          .define(
              "record.bytes", Type.INT, 0, Importance.LOW, "Size of a value; 0: the number alone.")
          .define("partitions", Type.INT, 1, Importance.LOW, "Source partitions of each task.")
          .define("pause.ms", Type.LONG, 0L, Importance.LOW, "Before each poll.")
          .define(Misbehaviour.SETTING, Type.STRING, "", Importance.LOW, "method:deed, ...");

  private Map<String, String> config = Map.of();
  private Misbehaviour does = new Misbehaviour(Map.of());
  private boolean stopped;

  @Override
  public String version() {
    return "1.0";
  }

  @Override
  public void start(Map<String, String> props) {
    config = props;
    does = new Misbehaviour(props);
    does.in("connector.start");
    if (does.has("connector.start", "reconfigure")) {
      Thread asking = new Thread(this::askForever, "asking");
      asking.setDaemon(true);
      asking.start();
    }
    if (does.has("connector.start", "offsets")) {
      Map<String, Object> stored = context().offsetStorageReader().offset(Map.of("p", "1"));
      context.raiseError(new IllegalStateException("stored " + stored));
    }
    if (props.containsKey("measured")) {
      MetricName name = context.pluginMetrics().metricName("started", "1", new LinkedHashMap<>());
      context.pluginMetrics().addMetric(name, (Gauge<Integer>) (metric, now) -> 1);
    }
    if (does.has("connector.start", "late")) {
      throw new IllegalStateException("misbehaves on purpose");
    }
    if (does.has("connector.start", "raise")) {
      context.raiseError(new IllegalStateException("raised on purpose"));
    }
  }

  private void askForever() {
    while (!stopped) {
      context.requestTaskReconfiguration();
      Thread.yield();
    }
  }

  @Override
  public Class<? extends Task> taskClass() {
    return does.in("taskClass") ? null : MisbehavingSourceTask.class;
  }

  @Override
  public List<Map<String, String>> taskConfigs(int most) {
    if (does.in("taskConfigs")) {
      return null;
    }
    int count = does.has("taskConfigs", "many") ? most + 5 : most;
    List<Map<String, String>> all = new ArrayList<>();
    for (int number = 0; number < count; number++) {
      Map<String, String> one = new HashMap<>(config);
      one.put(Misbehaviour.TASK, String.valueOf(number));
      if (does.has("taskConfigs", "changing")) {
        one.put("changes", String.valueOf(System.nanoTime()));
      }
      all.add(one);
    }
    return all;
  }

  @Override
  public Config validate(Map<String, String> props) {
    return new Misbehaviour(props).in("validate") ? null : super.validate(props);
  }

  @Override
  public ConfigDef config() {
    return DEFINITION;
  }

  @Override
  public ExactlyOnceSupport exactlyOnceSupport(Map<String, String> props) {
    return new Misbehaviour(props).in("exactlyOnceSupport") ? null : ExactlyOnceSupport.SUPPORTED;
  }

  @Override
  public boolean alterOffsets(
      Map<String, String> props, Map<Map<String, ?>, Map<String, ?>> offsets) {
    new Misbehaviour(props).in("alterOffsets");
    return true;
  }

  @Override
  public void stop() {
    does.in("connector.stop");
    if (stopped) {
      throw new IllegalStateException("stopped twice");
    }
    stopped = true;
  }
}
