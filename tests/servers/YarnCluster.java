import java.io.File;
import java.io.FileOutputStream;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.MiniYARNCluster;

/** A YARN cluster in one process: a resource manager and one node manager. Arguments: its folder, the clients' folder. */
public final class YarnCluster {
    private YarnCluster() {}

    public static void main(String[] arguments) throws Exception {
        Path home = Path.of(arguments[0]);
        Path configuration = Files.createDirectories(Path.of(arguments[1]));
        System.setProperty("test.build.data", home.toString());
        YarnConfiguration settings = new YarnConfiguration();
        settings.set("fs.defaultFS", "file:///");
        settings.set("hadoop.tmp.dir", home.resolve("tmp").toString());
        settings.setInt(YarnConfiguration.RM_SCHEDULER_MINIMUM_ALLOCATION_MB, 128);
        settings.set("yarn.scheduler.capacity.root.queues", "default");
        settings.set("yarn.scheduler.capacity.root.default.capacity", "100");
        settings.set("yarn.scheduler.capacity.maximum-am-resource-percent", "1");
        settings.setFloat("yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage", 99);
        settings.setBoolean("yarn.nodemanager.vmem-check-enabled", false);
        settings.setBoolean("yarn.nodemanager.pmem-check-enabled", false);
        MiniYARNCluster cluster = new MiniYARNCluster("yarn", 1, 1, 1);
        cluster.init(settings);
        cluster.start();
        if (!cluster.waitForNodeManagersToConnect(30_000)) {
            throw new IllegalStateException("the node manager has not registered within 30 seconds");
        }
        File part = configuration.resolve("yarn-site.part").toFile();
        Configuration told = new Configuration(cluster.getConfig());
        told.set("hadoop.tmp.dir", home.resolve("tmp").toString());
        try (OutputStream out = new FileOutputStream(part)) {
            told.writeXml(out);
        }
        Files.writeString(configuration.resolve("core-site.xml"),
            "<configuration><property><name>fs.defaultFS</name><value>file:///</value></property></configuration>");
        Files.move(part.toPath(), configuration.resolve("yarn-site.xml"));
        System.in.transferTo(OutputStream.nullOutputStream());
        cluster.stop();
        System.exit(0);
    }
}
