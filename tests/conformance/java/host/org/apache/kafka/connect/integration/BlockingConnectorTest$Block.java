package org.apache.kafka.connect.integration;

import java.util.Map;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.config.ConfigDef;

/**
 * Blocks a test connector or task for ever, as it is asked to, and reports that it does.
 *
 * <p>Stands in the worker's JVMs for the nested class of the same name in Kafka's test jar, hence
 * the name.
 */
public class BlockingConnectorTest$Block {
  public static final String BLOCK_CONFIG = "block";

  private final String block;

  public BlockingConnectorTest$Block(Map<String, String> settings) {
    this(settings.getOrDefault(BLOCK_CONFIG, ""));
  }

  public BlockingConnectorTest$Block(String block) {
    this.block = block;
    if (block != null) {
      HandleReports.send("will-block", block);
    }
  }

  public static ConfigDef config() {
    return new ConfigDef()
        .define(
            BLOCK_CONFIG,
            ConfigDef.Type.STRING,
            "",
            ConfigDef.Importance.MEDIUM,
            "The call that blocks.");
  }

  public void maybeBlockOn(String call) {
    if (!call.equals(block)) {
      return;
    }
    HandleReports.send("blocks", call);
    CountDownLatch never = new CountDownLatch(1);
    while (true) {
      try {
        never.await();
      } catch (InterruptedException error) {
        continue; // as the original: a thread that ignores its interruption
      }
    }
  }
}
