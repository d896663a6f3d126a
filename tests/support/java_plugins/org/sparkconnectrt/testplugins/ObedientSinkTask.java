package org.sparkconnectrt.testplugins;

import java.io.IOException;
import java.lang.reflect.Field;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.errors.RetriableException;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.sink.SinkTask;

/**
 * Notes each call and record in its file, a line each; a value that begins with "!" is done once:
 * retry, commit, errant, await (errant, and waits until it is durable), back (to offset 0), pause
 * (for one empty put), hang, label (notes that setting as it is now), member (notes what the
 * consumer in its context says), transaction (commits offsets of its group as that member in a
 * transaction of its own, and as one of an older generation), fail.
 */
public final class ObedientSinkTask extends SinkTask {
  private final Set<String> done = new HashSet<>();
  private Path file;
  private long putMs;

  @Override
  public String version() {
    return "1.0";
  }

  @Override
  public void start(Map<String, String> props) {
    file = Path.of(props.get("file"));
    putMs = Long.parseLong(props.getOrDefault("put.ms", "0"));
    note("start " + context.configs().get("file").equals(props.get("file")));
  }

  @Override
  public void open(Collection<TopicPartition> partitions) {
    note("open " + new TreeSet<>(partitions.stream().map(String::valueOf).toList()));
  }

  @Override
  public void close(Collection<TopicPartition> partitions) {
    note("close " + new TreeSet<>(partitions.stream().map(String::valueOf).toList()));
  }

  @Override
  public void put(Collection<SinkRecord> records) {
    if (records.isEmpty() && done.remove("pause")) {
      note("resume");
      context.resume(context.assignment().toArray(new TopicPartition[0]));
    }
    if (!records.isEmpty()) {
      sleep(putMs);
    }
    for (SinkRecord record : records) {
      String value = String.valueOf(record.value());
      if (value.startsWith("!") && done.add(value)) {
        obey(value.substring(1), record);
      } else if (!value.startsWith("!")) {
        note(
            record.topic()
                + "-"
                + record.kafkaPartition()
                + "@"
                + record.kafkaOffset()
                + " "
                + value);
      }
    }
  }

  private void obey(String what, SinkRecord record) {
    TopicPartition place = new TopicPartition(record.topic(), record.kafkaPartition());
    note("!" + what);
    switch (what) {
      case "retry" -> {
        context.timeout(300);
        throw new RetriableException("again");
      }
      case "commit" -> context.requestCommit();
      case "errant" -> report(record);
      case "await" -> {
        try {
          report(record).get();
          note("durable");
        } catch (InterruptedException error) {
          throw new ConnectException(error);
        } catch (java.util.concurrent.ExecutionException error) {
          throw new ConnectException(error.getCause());
        }
      }
      case "back" -> context.offset(place, 0L);
      case "pause" -> {
        done.add("pause");
        context.pause(place);
      }
      case "hang" -> hang();
      case "member" -> member();
      case "label" -> note("label " + context.configs().get("label"));
      case "transaction" -> transaction(place, record.kafkaOffset());
      case "fail" -> throw new IllegalStateException("as it was said");
      default -> throw new ConnectException("cannot " + what);
    }
  }

  private Future<Void> report(SinkRecord record) {
    return context.errantRecordReporter().report(record, new IllegalArgumentException("no good"));
  }

  private void hang() {
    while (file != null) {
      sleep(20);
    }
  }

  private static void sleep(long ms) {
    try {
      Thread.sleep(ms);
    } catch (InterruptedException ignored) {
      // goes on, on purpose
    }
  }

  private Consumer<?, ?> consumer() {
    try {
      Field field =
          org.apache.kafka.connect.runtime.WorkerSinkTaskContext.class.getDeclaredField("consumer");
      field.setAccessible(true);
      return (Consumer<?, ?>) field.get(context);
    } catch (ReflectiveOperationException error) {
      throw new ConnectException(error);
    }
  }

  private void member() {
    ConsumerGroupMetadata found = consumer().groupMetadata();
    Set<String> assigned =
        new TreeSet<>(consumer().assignment().stream().map(String::valueOf).toList());
    String instance = found.groupInstanceId().orElse("-");
    note(
        "member "
            + found.groupId()
            + " "
            + found.generationId()
            + " "
            + found.memberId()
            + " "
            + instance
            + " "
            + assigned);
  }

  private void transaction(TopicPartition place, long offset) {
    ConsumerGroupMetadata now = consumer().groupMetadata();
    ConsumerGroupMetadata before =
        new ConsumerGroupMetadata(
            now.groupId(), now.generationId() - 1, now.memberId(), now.groupInstanceId());
    Map<String, Object> config =
        Map.of(
            "bootstrap.servers", context.configs().get("servers"), "transactional.id", "obedient");
    Map<TopicPartition, OffsetAndMetadata> offsets = Map.of(place, new OffsetAndMetadata(offset));
    try (var producer =
        new KafkaProducer<>(config, new ByteArraySerializer(), new ByteArraySerializer())) {
      producer.initTransactions();
      producer.beginTransaction();
      producer.sendOffsetsToTransaction(offsets, now);
      producer.commitTransaction();
      note("committed " + consumer().committed(Set.of(place)).get(place).offset());
      producer.beginTransaction();
      try {
        producer.sendOffsetsToTransaction(offsets, before);
        note("not fenced");
      } catch (CommitFailedException fenced) {
        note("fenced");
      }
      producer.abortTransaction();
    }
  }

  @Override
  public Map<TopicPartition, OffsetAndMetadata> preCommit(
      Map<TopicPartition, OffsetAndMetadata> offsets) {
    Map<TopicPartition, OffsetAndMetadata> safe = new HashMap<>(offsets);
    safe.put(new TopicPartition("not-mine", 7), new OffsetAndMetadata(5)); // to be passed over
    return safe;
  }

  @Override
  public void stop() {
    note("stop");
  }

  private void note(String line) {
    try {
      Files.writeString(file, line + "\n", StandardOpenOption.CREATE, StandardOpenOption.APPEND);
    } catch (IOException error) {
      throw new ConnectException(error);
    }
  }
}
