// Reads option values: text becomes numbers, sizes, lists. It is one place, so that every program refuses the
// same things with the same words: a value that does not fit into its type is an error and never another
// value.
#pragma once
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "core/base/cache_size.h"

namespace hopfeed {

/// Reads a whole number from `min` to `max`; T is int, std::int64_t or std::uint64_t. Throws kInvalid:
/// "--seed is '-1'; give a whole number from 0 to 18446744073709551615".
template <class T>
T parse_whole(const std::string& text, const std::string& option, T min = std::numeric_limits<T>::min(),
              T max = std::numeric_limits<T>::max());

/// Reads a finite number.
double parse_real(const std::string& text, const std::string& option);

/// Reads bytes: a whole number, or one followed by K, M, G or T (powers of 1024; "4G", "4GB" and "4GiB" are
/// the same).
std::size_t parse_size(const std::string& text, const std::string& option);

/// "0.2" that share of the rows, "4G" as many as fit into so many bytes, "auto" as many as the reader of the
/// option finds to fit. `or_else`: what the option takes beside these, for its error: ", or FILE.json".
CacheSize parse_cache_size(const std::string& text, const std::string& option,
                           const std::string& or_else = "");

/// Reads a list: "0,5,16" -> {0, 5, 16}.
std::vector<std::int64_t> parse_list(const std::string& text, const std::string& option);

/// "0,2-4" -> {0, 2, 3, 4}: numbers of cores, of partitions, as taskset writes them.
std::vector<int> parse_numbers(const std::string& text, const std::string& option);

}  // namespace hopfeed
