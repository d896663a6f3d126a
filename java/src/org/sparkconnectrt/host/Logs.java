package org.sparkconnectrt.host;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.util.List;
import org.apache.logging.log4j.Level;
import org.apache.logging.log4j.LogManager;
import org.apache.logging.log4j.core.LogEvent;
import org.apache.logging.log4j.core.LoggerContext;
import org.apache.logging.log4j.core.appender.AbstractAppender;
import org.apache.logging.log4j.core.config.Configurator;
import org.apache.logging.log4j.core.config.Property;

/** What Java logs goes to Python, with the connector it is about; levels come from there. */
final class Logs extends AbstractAppender {
  /** Key of what Connect's own logging puts before a line: "[connector|task-0] ". */
  static final String CONTEXT = "connector.context";

  /**
   * Says at each start what is on the class path; or lists settings, which are resolved here:
   * secrets, too.
   */
  private static final List<String> QUIET =
      List.of(
          "org.apache.kafka.common.config.AbstractConfig",
          "org.apache.kafka.common.utils.AppInfoParser",
          "org.apache.kafka.connect.runtime.isolation");

  private final Wire wire;

  private Logs(Wire wire) {
    super("python", null, null, true, Property.EMPTY_ARRAY);
    this.wire = wire;
  }

  /** Sends all lines there from now on. {@code levels}: logger -> level, "root" for all others. */
  static void install(Wire wire, JsonNode levels) {
    LoggerContext context = (LoggerContext) LogManager.getContext(false);
    var root = context.getConfiguration().getRootLogger();
    root.getAppenders().keySet().forEach(root::removeAppender);
    Logs appender = new Logs(wire);
    appender.start();
    root.addAppender(appender, null, null);
    Configurator.setRootLevel(Level.INFO);
    QUIET.forEach(name -> Configurator.setLevel(name, Level.WARN));
    levels(levels);
    context.updateLoggers();
  }

  /** Sets each logger and all below it, in this order. */
  static void levels(JsonNode levels) {
    levels
        .properties()
        .forEach(
            one -> {
              Level level = Level.toLevel(one.getValue().asText(), Level.INFO);
              Configurator.setAllLevels(one.getKey().equals("root") ? "" : one.getKey(), level);
            });
  }

  private static String context(LogEvent event) {
    String known = event.getContextData().getValue(CONTEXT);
    Hosted<?, ?> task = Hosted.CURRENT.get(); // also on threads that the task has started
    return known != null ? known : task == null ? "" : task.mdc();
  }

  @Override
  public void append(LogEvent event) {
    ObjectNode line = Wire.JSON.createObjectNode();
    line.put("logger", event.getLoggerName());
    line.put("level", event.getLevel().name());
    line.put("thread", event.getThreadName());
    line.put("message", context(event) + event.getMessage().getFormattedMessage());
    if (event.getThrown() != null) {
      StringWriter trace = new StringWriter();
      event.getThrown().printStackTrace(new PrintWriter(trace));
      line.put("trace", trace.toString());
    }
    try {
      wire.write('L', 0, line);
    } catch (IOException gone) {
      Host.exit(Host.PYTHON_GONE);
    }
  }
}
