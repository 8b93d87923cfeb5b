// See option_name.h.
#include "core/base/option_name.h"

#include <utility>

namespace hopfeed {
namespace {

struct Names {
  OptionNames options, files;  // by field
};

Names& names() {
  static Names the_ones;
  return the_ones;
}

constexpr std::string_view kBatch = "batch.";  // options of LoaderOptions::batch may be told with it

/// nullptr where no option has the name.
const std::string* find(std::string_view field) {
  const OptionNames& options = names().options;
  auto found = options.find(field);
  if (found == options.end() && field.starts_with(kBatch)) found = options.find(field.substr(kBatch.size()));
  return found == options.end() ? nullptr : &found->second;
}

}  // namespace

void name_options(OptionNames given) { names().options = std::move(given); }

std::string option_name(std::string_view field) {
  const std::string* option = find(field);
  return option != nullptr ? *option : std::string(field);
}

std::string with_option_names(std::string_view message) {
  std::string renamed;
  for (std::size_t at = 0; at < message.size();) {
    const std::string_view word = message.substr(at, message.find_first_of(" ,;:()", at) - at);
    const std::string_view before = message.substr(0, at), behind = message.substr(at + word.size());
    const bool of_field = word.find_first_of("_.") != std::string_view::npos ||
                          (before.ends_with('(') && behind.starts_with(')')) || before.ends_with("option ") ||
                          (before.empty() && behind.starts_with(" is "));
    renamed += of_field ? option_name(word) : std::string(word);
    if (!behind.empty()) renamed += behind.front();
    at += word.size() + 1;
  }
  return renamed;
}

void note_option_file(std::string_view field, std::string_view file) {
  names().files[std::string(field)] = std::string(file);
}

std::string option_file(std::string_view field) {
  const auto found = names().files.find(field);
  return found == names().files.end() ? "" : option_name(field) + ": " + found->second + ": ";
}

}  // namespace hopfeed
