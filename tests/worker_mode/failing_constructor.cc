// A shared library that fails before anybody can ask what it is, as FAILING_CONSTRUCTOR says.
#include <unistd.h>

#include <cstdlib>
#include <stdexcept>
#include <string>

namespace {

struct Impatient {
  Impatient() {
    const char* how = std::getenv("FAILING_CONSTRUCTOR");
    const std::string what = how != nullptr ? how : "throw";
    if (what == "abort") std::abort();
    if (what == "exit") std::_Exit(0);
    if (what == "throw 7") throw 7;
    while (what == "hang") ::pause();
    throw std::runtime_error("not before noon");
  }
};
const Impatient impatient;

}  // namespace
