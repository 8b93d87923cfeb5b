// hopfeed-partition: makes, cuts, shows and checks datasets. One subcommand per file beside this one.
#include <cstdio>

#include "core/program/program_main.h"
#include "partition_tool/program/tool.h"

int main(int argc, char** argv) {
  hopfeed::Tool tool;
  for (int i = 0; i < argc; ++i) tool.command_line += (i > 0 ? " " : "") + std::string(argv[i]);
  CLI::App app("Makes, partitions, inspects and verifies hopfeed datasets", "hopfeed-partition");
  app.require_subcommand(0, 1);   // that one is there is checked below: so a mistyped one is named
  hopfeed::add_import(app, tool);
  hopfeed::add_generate(app, tool);
  hopfeed::add_partition(app, tool);
  hopfeed::add_inspect(app, tool);
  hopfeed::add_verify(app, tool);
  hopfeed::stop_on_signals();
  return hopfeed::program_main(app, argc, argv, [&] {
    if (!tool.run) {
      throw hopfeed::Error(hopfeed::ErrorCode::kInvalid,
                           "name a command: import debian|ogb|numpy, generate, partition, inspect or verify (see hopfeed-partition --help)");
    }
    try {
      tool.run();
      return 0;
    } catch (const hopfeed::Interrupted&) {
      std::fprintf(stderr, "hopfeed-partition: interrupted; nothing was left behind\n");
      return 130;
    }
  });
}
