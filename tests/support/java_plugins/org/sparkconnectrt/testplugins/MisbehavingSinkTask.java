package org.sparkconnectrt.testplugins;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Collection;
import java.util.Map;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.sink.SinkTask;

/** Appends "partition:offset:value" of each record to its file. */
public final class MisbehavingSinkTask extends SinkTask {
  private Misbehaviour does = new Misbehaviour(Map.of());
  private String file = "";
  private boolean stopped;

  @Override
  public String version() {
    return does.in("version") ? null : "1.0";
  }

  @Override
  public void start(Map<String, String> props) {
    does = new Misbehaviour(props);
    file = props.getOrDefault("file", "");
    does.in("start");
  }

  @Override
  public void open(Collection<TopicPartition> partitions) {
    does.in("open");
  }

  @Override
  public void put(Collection<SinkRecord> records) {
    if (!records.isEmpty()) {
      does.in("put");
    }
    StringBuilder lines = new StringBuilder();
    for (SinkRecord record : records) {
      lines.append(record.kafkaPartition()).append(':').append(record.kafkaOffset());
      lines.append(':').append(record.value()).append('\n');
      if (does.has("put", "errant")) {
        context.errantRecordReporter().report(record, new ConnectException("errant on purpose"));
      }
    }
    if (does.has("put", "rewind") && !records.isEmpty()) {
      SinkRecord first = records.iterator().next();
      context.offset(new TopicPartition(first.originalTopic(), first.originalKafkaPartition()), 0L);
    }
    if (!file.isEmpty()) {
      try {
        Files.writeString(
            Path.of(file), lines, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
      } catch (IOException error) {
        throw new ConnectException(error);
      }
    }
  }

  @Override
  public Map<TopicPartition, OffsetAndMetadata> preCommit(
      Map<TopicPartition, OffsetAndMetadata> offsets) {
    return does.in("preCommit") ? null : super.preCommit(offsets);
  }

  @Override
  public void flush(Map<TopicPartition, OffsetAndMetadata> offsets) {
    does.in("flush");
  }

  @Override
  public void close(Collection<TopicPartition> partitions) {
    does.in("close");
  }

  @Override
  public void stop() {
    does.in("stop");
    if (stopped) {
      throw new IllegalStateException("stopped twice");
    }
    stopped = true;
  }
}
