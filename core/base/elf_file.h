// Looks at a shared library before it is loaded: one that was cut short would be a bus error in the middle of
// dlopen.
#pragma once
#include <filesystem>

namespace hopfeed {

/// Throws kInvalid where the file is no shared library for this machine, or its headers name bytes behind its
/// end; kIo where it cannot be read. `what` names it in the message.
void require_shared_library(const std::filesystem::path& file, const char* what);

}  // namespace hopfeed
