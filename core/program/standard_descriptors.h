// Fills descriptors 0, 1 and 2 of a process. Whoever starts a program may have closed them, and the next file
// that is opened gets the lowest number that is free: what is printed would then be written into that file.
#pragma once

namespace hopfeed {

/// Opens /dev/null for those of 0 to 2 that are closed. It is called first of all, before anything is opened
/// and while there is one thread. False where there is no /dev/null: then nothing may be opened.
[[nodiscard]] bool fill_standard_descriptors();

}  // namespace hopfeed
