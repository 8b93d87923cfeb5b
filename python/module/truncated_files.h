// A dataset's file that is truncated while this process has it mapped would end the process by SIGBUS, and
// somebody's notebook with it. Here a page of zeros takes the lost page's place, and the file is an error.
#pragma once

namespace hopfeed::python {

/// From now on SIGBUS inside a file that hopfeed has mapped is survived, and told by require_whole_files()
/// or, if nothing calls that before, as an exception in the main thread. Any other SIGBUS goes where it went
/// before. Call it once, with the GIL.
void survive_truncated_files();
/// Throws kCorrupt naming the file where one was truncated since the last call.
void require_whole_files();

}  // namespace hopfeed::python
