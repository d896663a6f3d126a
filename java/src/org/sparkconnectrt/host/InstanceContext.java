package org.sparkconnectrt.host;

import java.util.function.BiConsumer;
import org.apache.kafka.common.metrics.PluginMetrics;
import org.apache.kafka.common.metrics.internals.PluginMetricsImpl;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.connect.connector.ConnectorContext;
import org.apache.kafka.connect.sink.SinkConnectorContext;
import org.apache.kafka.connect.source.SourceConnectorContext;
import org.apache.kafka.connect.storage.OffsetStorageReader;

/** What a connector may ask of its worker. Any thread. */
abstract class InstanceContext implements ConnectorContext {
  private final Home home;
  private final String name;
  private final BiConsumer<String, Object> tell;
  private final Requests reconfigurations;
  private PluginMetricsImpl metrics;

  /** {@code tell} says what the connector wants, with a detail. */
  private InstanceContext(Home home, String name, BiConsumer<String, Object> tell) {
    this.home = home;
    this.name = name;
    this.tell = tell;
    this.reconfigurations = new Requests(() -> tell.accept("reconfigure", null));
  }

  @Override
  public void requestTaskReconfiguration() {
    reconfigurations.make();
  }

  @Override
  public void raiseError(Exception error) {
    tell.accept("failed", Hosted.failure(error));
  }

  @Override
  public synchronized PluginMetrics pluginMetrics() {
    if (metrics == null) {
      metrics = home.connectorMetrics(name);
    }
    return metrics;
  }

  /**
   * The connector has ended: one of its name that is started here has metrics of the same names.
   */
  synchronized void close() {
    Utils.closeQuietly(metrics, "plug-in metrics");
  }

  /** Of a sink connector, whose {@code context()} casts to this. */
  static final class OfSink extends InstanceContext implements SinkConnectorContext {
    OfSink(Home home, String name, BiConsumer<String, Object> tell) {
      super(home, name, tell);
    }
  }

  /** Of a source connector: it may read stored offsets. */
  static final class OfSource extends InstanceContext implements SourceConnectorContext {
    private final DriverOffsets offsets;

    OfSource(Home home, String name, BiConsumer<String, Object> tell, DriverOffsets offsets) {
      super(home, name, tell);
      this.offsets = offsets;
    }

    @Override
    public OffsetStorageReader offsetStorageReader() {
      return offsets;
    }
  }
}
