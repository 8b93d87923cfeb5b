// A program that has a file mapped which is truncated ends with one line that names it, instead of a death by
// SIGBUS. Only programs install this; a process that hopfeed is a library of may have its own handler.
#pragma once

namespace hopfeed {

/// From now on SIGBUS at an address inside a mapped file calls `report` with the file's path and then leaves
/// with exit code 2. Anywhere else it does what it did before: it kills. `report` may only do what a signal
/// handler may.
void on_truncated_file(void (*report)(const char* path));

/// Has on_truncated_file() write a line "NAME: PATH was truncated ..." to stderr.
void report_truncated_files(const char* program_name);

}  // namespace hopfeed
