// Finds the program of the sampling workers.
#pragma once
#include <string>

namespace hopfeed {

/// By the rule in LocalExecution::worker_program, which `option` is. Throws kNotFound.
std::string find_worker_program(const std::string& option);

}  // namespace hopfeed
