// Java Connect's own JsonConverter and transformations on the rows of bench/convert.py.
// Arguments: rows, passes to warm up, passes to measure. Prints one line of JSON: records per CPU second of the whole
// process (its compiler and collector included), and SHA-256 of what was written.

import java.lang.management.ManagementFactory;
import java.security.MessageDigest;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Map;
import org.apache.kafka.connect.connector.ConnectRecord;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaBuilder;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.transforms.InsertField;
import org.apache.kafka.connect.transforms.MaskField;
import org.apache.kafka.connect.transforms.RegexRouter;
import org.apache.kafka.connect.transforms.ReplaceField;
import org.apache.kafka.connect.transforms.Transformation;

public class ConvertBench {
    static final Schema SCHEMA = SchemaBuilder.struct().name("row")
        .field("id", Schema.INT32_SCHEMA).field("total", Schema.INT64_SCHEMA).field("price", Schema.FLOAT64_SCHEMA)
        .field("rate", Schema.FLOAT32_SCHEMA).field("ok", Schema.BOOLEAN_SCHEMA).field("name", Schema.STRING_SCHEMA)
        .field("city", Schema.STRING_SCHEMA).field("note", Schema.OPTIONAL_STRING_SCHEMA)
        .field("count", Schema.OPTIONAL_INT32_SCHEMA).field("code", Schema.STRING_SCHEMA).build();

    static final Map FILE = new HashMap();

    interface Pass { void run() throws Exception; }

    public static void main(String[] arguments) throws Exception {
        int rows = Integer.parseInt(arguments[0]);
        int warm = Integer.parseInt(arguments[1]);
        int timed = Integer.parseInt(arguments[2]);
        final SourceRecord[] records = records(rows);
        final JsonConverter converter = new JsonConverter();
        Map settings = new HashMap();
        settings.put("schemas.enable", "true");
        converter.configure(settings, false);
        final Transformation[] chain = chain();
        final byte[][] written = new byte[rows][];
        final SourceRecord[] transformed = new SourceRecord[rows];
        final Object[] read = new Object[rows];
        Pass write = new Pass() {
            public void run() {
                for (int at = 0; at < records.length; at++) {
                    written[at] = converter.fromConnectData("lines", SCHEMA, records[at].value());
                }
            }
        };
        Pass reading = new Pass() {
            public void run() {
                for (int at = 0; at < records.length; at++) read[at] = converter.toConnectData("lines", written[at]).value();
            }
        };
        Pass transform = new Pass() {
            public void run() {
                for (int at = 0; at < records.length; at++) {
                    ConnectRecord record = records[at];
                    for (int step = 0; step < chain.length; step++) record = chain[step].apply(record);
                    transformed[at] = (SourceRecord) record;
                }
            }
        };
        double writes = rate(write, rows, warm, timed);
        double reads = rate(reading, rows, warm, timed);
        double chains = rate(transform, rows, warm, timed);
        MessageDigest plain = MessageDigest.getInstance("SHA-256"), changed = MessageDigest.getInstance("SHA-256");
        for (int at = 0; at < rows; at++) {
            plain.update(written[at]);
            if (!read[at].equals(records[at].value())) throw new IllegalStateException("row " + at + " came back changed");
            changed.update(transformed[at].topic().getBytes());
            changed.update(converter.fromConnectData("lines", transformed[at].valueSchema(), transformed[at].value()));
        }
        System.out.println("{\"write\":" + (long) writes + ",\"read\":" + (long) reads + ",\"chain\":" + (long) chains
            + ",\"written\":\"" + hex(plain) + "\",\"transformed\":\"" + hex(changed) + "\"}");
    }

    static String hex(MessageDigest digest) {
        return HexFormat.of().formatHex(digest.digest());
    }

    static SourceRecord[] records(int rows) {
        SourceRecord[] records = new SourceRecord[rows];
        for (int at = 0; at < rows; at++) {
            String code = "0000000" + Integer.toHexString(at);
            Struct row = new Struct(SCHEMA);
            row.put("id", Integer.valueOf(at));
            row.put("total", Long.valueOf(at * 1000003L));
            row.put("price", Double.valueOf(at * 0.25 + 0.125));
            row.put("rate", Float.valueOf((at % 100) / 4.0f));
            row.put("ok", Boolean.valueOf(at % 2 == 0));
            row.put("name", "name-" + at);
            row.put("city", "Amsterdam");
            row.put("note", at % 5 == 0 ? null : "a note of some length");
            row.put("count", Integer.valueOf(at % 7));
            row.put("code", code.substring(code.length() - 8));
            Map position = new HashMap();
            position.put("position", Long.valueOf(at));
            records[at] = new SourceRecord(FILE, position, "lines", SCHEMA, row);
        }
        return records;
    }

    static Transformation[] chain() {
        return new Transformation[] {
            configured(new InsertField.Value(), "static.field", "by", "static.value", "bench"),
            configured(new MaskField.Value(), "fields", "name", null, null),
            configured(new ReplaceField.Value(), "exclude", "note", "renames", "city:town"),
            configured(new RegexRouter(), "regex", "li(.*)", "replacement", "pi$1"),
        };
    }

    static Transformation configured(Transformation made, String name, String value, String other, String more) {
        Map settings = new HashMap();
        settings.put(name, value);
        if (other != null) settings.put(other, more);
        made.configure(settings);
        return made;
    }

    static double rate(Pass pass, int rows, int warm, int timed) throws Exception {
        for (int at = 0; at < warm; at++) pass.run();
        long begun = cpuNs();
        for (int at = 0; at < timed; at++) pass.run();
        return (double) rows * timed * 1e9 / Math.max(1L, cpuNs() - begun);
    }

    static long cpuNs() {
        return ((com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime();
    }
}
