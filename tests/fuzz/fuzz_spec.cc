// Any bytes as a batch spec, or, where the first byte is odd, as a whole OPEN frame's payload. What is read
// is written and read again the same.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "core/base/error.h"
#include "core/batch/batch_spec.h"
#include "wire/messages.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace hopfeed;
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    const BatchSpec spec = data[0] % 2 == 0
                               ? BatchSpec::from_json(text)
                               : wire::from_bytes<wire::Open>(wire::to_bytes(std::string_view(text))).spec;
    const std::string json = spec.to_json();
    if (BatchSpec::from_json(json).to_json() != json) std::abort();
    spec.parts();
    const wire::Open open{.job = 1, .spec = spec};
    if (!(wire::from_bytes<wire::Open>(wire::to_bytes(open)).spec == spec)) std::abort();
  } catch (const Error&) {
  }
  return 0;
}
