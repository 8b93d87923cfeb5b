// See earlier_run.h.
#include "trainer/earlier_run.h"

#include <functional>
#include <ranges>

#include "trainer/checkpoint.h"
#include "trainer/checkpoint_files.h"
#include "trainer/launched_run.h"
#include "trainer/long_work.h"

namespace hopfeed {

bool is_of_this_run(const std::filesystem::path& checkpoint, const World& world) {
  const LaunchedRun& run = launched_run(world);
  if (run.restarts == 0 || !std::filesystem::exists(checkpoint)) return false;
  return run.id.empty() || run_of_checkpoint(checkpoint) == run.id;
}

/// The last model's first: of a run that is killed in between, the others' alone are left, which --resume
/// takes only where the options are the same.
void put_earlier_runs_aside(World& world, const std::filesystem::path& out,
                            const std::vector<std::string>& names) {
  const auto put = [&] {
    for (const std::string& name : std::views::reverse(names)) {
      const CheckpointFiles files(out / (name + ".checkpoint"), 1);
      if (!is_of_this_run(files.last(), world)) files.set_aside();
    }
  };
  const bool puts = world.rank() == 0 && !out.empty();
  do_together(world, puts ? std::function<void()>(put) : nullptr);
}

}  // namespace hopfeed
