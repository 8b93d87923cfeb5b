// See push_command.h.
#include "partition_tool/program/push_command.h"

namespace hopfeed {

void add_push_command(CommandLine& line, PushOptions& options) {
  CommandLine& command = line.command(
      "push",
      "Copy to each machine the partitions that it serves, and what every machine needs, by rsync over ssh; "
      "an interrupted push goes on when it is repeated");
  command.option("DIR", options.folder, "Dataset folder", {.required = true});
  command.repeatable_option("--to", "PARTITIONS=HOST:PATH",
                            "Partitions like 0,2-3, and the folder that gets them; without HOST: a folder of "
                            "this machine. Once for "
                            "each machine",
                            [&options](const std::string& text) { options.to.push_back(text); });
  command.option("--ssh", options.ssh,
                 "Command that reaches a host, with its options: \"ssh -p 2222 -i key\"");
  command.option("--timeout", options.timeout, "Seconds without a byte after which a machine is given up",
                 {.min = 1, .max = 86'400});
  command.size_option("--bandwidth", options.bandwidth, "Bytes a second at most; default: all there is");
  command.flag(
      "--checksum", options.checksum,
      "Find what is to be sent by checksums instead of sizes and times: mends files that were damaged "
      "there");
  command.flag("--without-halos", options.parts.without_halos,
               "Leave the halos of partitions out, for machines without room for them");
  command.flag("--with-keys", options.parts.with_keys,
               "Send the keys of nodes too, of a dataset that was imported from tables: sampling needs none");
  command.flag("--dry-run", options.dry_run,
               "Ask the machines and show what would go where; nothing is written");
  command.option("--json", options.json, "Write a report as JSON to this file", {.output = true});
  command.action([&options] { push_dataset(options); });
}

}  // namespace hopfeed
