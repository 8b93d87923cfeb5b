// Names the file or folder beside a target that is renamed to it once it is whole: .NAME.tmp-OWNER. The owner
// tells who made it: boot, pid namespace, pid and start time of the process. On this machine a later process
// can tell whether that one still lives, also where its pid is used again; on a file system that several
// machines share, it leaves the others' alone.
#pragma once
#include <filesystem>
#include <string>

namespace hopfeed {

/// Returns "BOOT-NAMESPACE-PID-START" of this process.
std::string temporary_owner();

/// Returns the name beside `target` that this process writes under.
std::filesystem::path temporary_beside(const std::filesystem::path& target);

/// Removes what lies beside `target` and nobody will go on with: its process is known to be dead, or ran
/// elsewhere and touched nothing of it for a day, or is this one, which writes a target once at a time.
void sweep_abandoned(const std::filesystem::path& target);

}  // namespace hopfeed
