// See hashed_tfidf.h.
#include "partition_tool/hashed_tfidf.h"

#include <xxhash.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <unordered_map>

namespace hopfeed {
namespace {

/// The hashes of a text's words, repeats included, rising: a hash stands for its word from here on.
std::vector<std::uint64_t> word_hashes(std::string_view text) {
  std::vector<std::uint64_t> hashes;
  std::string word;
  const auto end_word = [&] {
    if (word.size() >= 2) hashes.push_back(XXH3_64bits(word.data(), word.size()));
    word.clear();
  };
  for (char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || byte >= 0x80)
      word += c;
    else if (c >= 'A' && c <= 'Z')
      word += static_cast<char>(c - 'A' + 'a');
    else
      end_word();
  }
  end_word();
  std::sort(hashes.begin(), hashes.end());  // a fixed order of sums
  return hashes;
}

/// std::log differs in its last bit between C libraries and processors; a dataset may not. 2 atanh((m - 1) /
/// (m + 1)) as its series, for m within a factor of 1.42 of 1, plus the exponent's share.
double natural_log(double value) {
  constexpr double kLog2 = 0.693147180559945309417, kSqrtHalf = 0.70710678118654752440;
  int exponent = 0;
  double mantissa = std::frexp(value, &exponent);  // exact
  if (mantissa < kSqrtHalf) mantissa *= 2, --exponent;
  const double s = (mantissa - 1) / (mantissa + 1), s2 = s * s;
  double sum = 0;
  for (int k = 21; k >= 1; k -= 2) sum = sum * s2 + 1.0 / k;
  return 2 * s * sum + exponent * kLog2;
}

}  // namespace

std::vector<float> hashed_tfidf(std::span<const std::string_view> texts, std::int64_t width) {
  std::vector<std::vector<std::uint64_t>> words(texts.size());
  std::unordered_map<std::uint64_t, std::int64_t> texts_with;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    words[i] = word_hashes(texts[i]);
    for (std::size_t k = 0; k < words[i].size(); ++k) {
      if (k == 0 || words[i][k] != words[i][k - 1]) ++texts_with[words[i][k]];
    }
  }
  std::vector<float> features(texts.size() * static_cast<std::size_t>(width));
  std::vector<double> row(static_cast<std::size_t>(width));
  for (std::size_t i = 0; i < texts.size(); ++i) {
    std::fill(row.begin(), row.end(), 0.0);
    for (std::uint64_t word : words[i]) {
      const double rarity = 1 + natural_log((1 + static_cast<double>(texts.size())) /
                                            (1 + static_cast<double>(texts_with[word])));
      row[word % static_cast<std::uint64_t>(width)] += (word >> 63) != 0 ? -rarity : rarity;
    }
    double squares = 0;
    for (double value : row) squares += value * value;
    const double scale = squares > 0 ? 1 / std::sqrt(squares) : 0;
    for (std::size_t f = 0; f < row.size(); ++f)
      features[i * row.size() + f] = static_cast<float>(row[f] * scale);
  }
  return features;
}

}  // namespace hopfeed
