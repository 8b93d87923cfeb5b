// See parse_option.h.
#include "core/program/parse_option.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <string_view>
#include <type_traits>

#include "core/base/error.h"

namespace hopfeed {
namespace {

constexpr int kMaxNumber = 65'536;

[[noreturn]] void refuse(const std::string& option, std::string_view text, const std::string& wanted) {
  throw Error(ErrorCode::kInvalid, fmt::format("{} is '{}'; give {}", option, text, wanted));
}

/// False where `text` is not the whole of a number of this type.
template <class T>
bool read(std::string_view text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size();
}

/// Calls `take(part)` for what lies between the commas.
template <class Take>
void for_each_part(std::string_view text, const Take& take) {
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    take(text.substr(begin, end - begin));
    begin = end + 1;
  }
}

}  // namespace

template <class T>
T parse_whole(const std::string& text, const std::string& option, T min, T max) {
  T value = 0;
  if (!read(text, value) || value < min || value > max) {
    const bool any_below = std::is_signed_v<T> && min == std::numeric_limits<T>::min();
    refuse(option, text,
           any_below ? fmt::format("a whole number up to {}", max)
                     : fmt::format("a whole number from {} to {}", min, max));
  }
  return value;
}
template int parse_whole<int>(const std::string&, const std::string&, int, int);
template std::int64_t parse_whole<std::int64_t>(const std::string&, const std::string&, std::int64_t,
                                                std::int64_t);
template std::uint64_t parse_whole<std::uint64_t>(const std::string&, const std::string&, std::uint64_t,
                                                  std::uint64_t);

double parse_real(const std::string& text, const std::string& option) {
  double value = 0;
  if (!read(text, value) || !std::isfinite(value)) refuse(option, text, "a number");
  return value;
}

std::size_t parse_size(const std::string& text, const std::string& option) {
  static constexpr std::string_view kUnits = "KMGT";
  const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  std::string unit = text.substr(digits);
  for (char& c : unit) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  const std::size_t power = unit.empty() ? std::string_view::npos : kUnits.find(unit[0]);
  const bool known = unit.empty() || (power != std::string_view::npos &&
                                      (unit.size() == 1 || unit.substr(1) == "B" || unit.substr(1) == "IB"));
  std::size_t value = 0;
  const int shift = unit.empty() ? 0 : 10 * (static_cast<int>(power) + 1);
  if (!known || !read(std::string_view(text).substr(0, digits), value) ||
      value > std::numeric_limits<std::size_t>::max() >> shift)
    refuse(option, text, "bytes, like 1000000, 512M or 4G");
  return value << shift;
}

CacheSize parse_cache_size(const std::string& text, const std::string& option, const std::string& or_else) {
  if (text == "auto") return {.automatic = true};
  if (text.find_first_of("KMGTkmgtBb") != std::string::npos) {
    const std::size_t bytes = parse_size(text, option);
    require_valid(bytes > 0, fmt::format("{} is '{}'; give 0 to hold nothing", option, text));
    return {.bytes = bytes};
  }
  const double ratio = parse_real(text, option);
  if (ratio < 0 || ratio > 1)
    refuse(option, text,
           "a share from 0 to 1, a size (4G)" + (or_else.empty() ? " or auto" : ", auto" + or_else));
  return {.ratio = ratio};
}

std::vector<std::int64_t> parse_list(const std::string& text, const std::string& option) {
  std::vector<std::int64_t> values;
  for_each_part(text, [&](std::string_view part) {
    if (!read(part, values.emplace_back())) refuse(option, text, "whole numbers with commas between them");
  });
  return values;
}

std::vector<int> parse_numbers(const std::string& text, const std::string& option) {
  std::vector<int> numbers_read;
  for_each_part(text, [&](std::string_view part) {
    const std::size_t dash = part.find('-');
    int low = 0, high = 0;
    const bool numbers = read(part.substr(0, dash), low) &&
                         (dash == std::string_view::npos || read(part.substr(dash + 1), high));
    if (dash == std::string_view::npos) high = low;
    if (!numbers || high < low || high >= kMaxNumber) refuse(option, text, "whole numbers, like 0,2-3");
    for (int number = low; number <= high; ++number) numbers_read.push_back(number);
  });
  return numbers_read;
}

}  // namespace hopfeed
