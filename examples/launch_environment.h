// What hopfeed-launch tells the trainers that it starts, as the options that it stands for: a training
// program takes its dataset, servers and owners from HOPFEED_ variables where its command line names none
// (docs/cluster.md).
#pragma once
#include <functional>
#include <string>
#include <vector>

namespace hopfeed {

/// Returns `words`, the command line behind the program's name, and behind them those that the environment
/// stands for, of the options that the program `has`. Words win: where --data or --servers is among them,
/// the variables of dataset, peers, servers, owners, token and authority stand for nothing. Where --model is
/// among them nothing is trained, and --owners is not added. HOPFEED_RUN and HOPFEED_RESTART stand for no
/// option (trainer/launched_run.h). Throws kInvalid where dataset and servers are both set, and none is
/// typed.
std::vector<std::string> with_launch_environment(std::vector<std::string> words,
                                                 const std::function<bool(const char* option)>& has);

}  // namespace hopfeed
