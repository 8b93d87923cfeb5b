// Who made a temporary folder, told by the last part of its name: boot, pid namespace, pid and start time of the process. On
// this machine a later process can tell whether that one still lives, also where its pid is used again; on a file system that
// several machines share, it leaves the others' folders alone.
#pragma once
#include <filesystem>
#include <string>

namespace hopfeed {

/// "BOOT-NAMESPACE-PID-START" of this process.
std::string temporary_owner();

/// True where nobody will go on with `folder`, whose owner's name is `owner`: the process is known to be dead; or it ran
/// elsewhere, and nothing in the folder was touched for a day.
bool is_abandoned(const std::string& owner, const std::filesystem::path& folder);

}  // namespace hopfeed
