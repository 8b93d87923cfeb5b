// Makes text features without a vocabulary: TF-IDF weights of words, hashed into a fixed number of columns
// (Weinberger et al., "Feature Hashing for Large Scale Multitask Learning", ICML 2009).
#pragma once
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace hopfeed {

/// Returns float32 [texts, width]. Words are runs of ASCII letters and digits, lower-cased, and bytes of
/// other alphabets; words shorter than two bytes do not count. A word w of a text weighs tf(w) * (1 + ln((1 +
/// texts) / (1 + texts with w))), goes to column XXH3(w) mod width, with the sign of the hash's top bit; each
/// row is scaled to length 1 (0 where it has no words).
std::vector<float> hashed_tfidf(std::span<const std::string_view> texts, std::int64_t width);

}  // namespace hopfeed
