// A shared library that fails before anybody can ask what it is.
#include <stdexcept>

namespace {

struct Impatient {
  Impatient() { throw std::runtime_error("not before noon"); }
};
const Impatient impatient;

}  // namespace
