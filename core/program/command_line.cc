// See command_line.h.
#include "core/program/command_line.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <map>

#include "core/base/error.h"
#include "core/dataset/dataset_writer.h"
#include "core/program/parse_option.h"

namespace hopfeed {
namespace fs = std::filesystem;
namespace {

/// The name that messages use: the first of "--threads,--num-workers".
std::string first_name(const std::string& names) { return names.substr(0, names.find(',')); }

template <class T>
T whole_number(const std::string& text, const std::string& name, const OptionRules& rules) {
  std::int64_t min = rules.positive ? 1 : rules.min, max = rules.max;
  if constexpr (std::is_same_v<T, std::uint64_t>) {
    return parse_whole<T>(text, name, rules.positive ? 1 : 0);
  } else {
    min = std::max<std::int64_t>(min, std::numeric_limits<T>::min());
    max = std::min<std::int64_t>(max, std::numeric_limits<T>::max());
    return parse_whole<T>(text, name, static_cast<T>(min), static_cast<T>(max));
  }
}

/// What --help shows of a default. One that the option would refuse is none: it stands for a choice made
/// later.
std::string shown(std::int64_t value, const OptionRules& rules) {
  const bool accepted = value >= (rules.positive ? 1 : rules.min) && value <= rules.max;
  return accepted ? std::to_string(value) : "";
}

/// Where a file or folder of that name comes to lie. A link there would be replaced itself, so links count in
/// the folder alone.
fs::path place_of(const fs::path& path) {
  const fs::path whole = fs::absolute(path.has_filename() ? path : path.parent_path());
  std::error_code ignored;
  return fs::weakly_canonical(whole.parent_path(), ignored) / whole.filename();
}

/// How many of a command line's words name a file that is there: FILE, --option=FILE or NAME=FILE.
int times_named(const fs::path& file, const std::vector<std::string>& words) {
  int times = 0;
  for (const std::string& word : words) {
    std::error_code ignored;
    const std::size_t equals = word.find('=');
    times += fs::equivalent(word, file, ignored) ||
             (equals != std::string::npos && fs::equivalent(word.substr(equals + 1), file, ignored));
  }
  return times;
}

/// An empty text where an empty value stands for an option that was not given: a variable of a script that is
/// not set.
void refuse_empty(const std::string& text, const std::string& name) {
  if (text.empty())
    throw Error(ErrorCode::kInvalid, fmt::format("{} is ''; give a value or leave it out", name));
}

double real_number(const std::string& text, const std::string& name, const OptionRules& rules) {
  const double given = parse_real(text, name);
  if (rules.positive && !(given > 0))
    throw Error(ErrorCode::kInvalid, fmt::format("{} is '{}'; give a number above 0", name, text));
  return given;
}

}  // namespace

struct CommandLine::App {
  std::unique_ptr<CLI::App> own;  // of the program; commands belong to their parent
  CLI::App* cli;
};

namespace {

char starting[64] = "";  // the program's name

/// Until program_main() has its own word for it: the memory does not even hold the options.
[[noreturn]] void end_without_memory() {
  constexpr std::string_view kWords = ": there is no memory to start with\n";
  if (::write(STDERR_FILENO, starting, std::strlen(starting)) >= 0 &&
      ::write(STDERR_FILENO, kWords.data(), kWords.size()) < 0)
    std::_Exit(1);
  std::_Exit(1);
}

}  // namespace

CommandLine::CommandLine(const std::string& program, const std::string& description) : name_(program) {
  std::strncpy(starting, program.c_str(), sizeof starting - 1);
  std::set_terminate(end_without_memory);
  auto own = std::make_unique<CLI::App>(description, program);
  CLI::App* cli = own.get();
  cli->require_subcommand(0, 1);  // that one is there is checked in run(): so a mistyped one is named
  app_ = std::make_unique<App>(App{std::move(own), cli});
}

CommandLine::CommandLine(const std::string& name, CommandLine& parent, const std::string& description)
    : name_(parent.name_ + " " + name) {
  CLI::App* cli = parent.app_->cli->add_subcommand(name, description);
  cli->require_subcommand(0, 1);
  app_ = std::make_unique<App>(App{nullptr, cli});
}

CommandLine::~CommandLine() = default;

constexpr std::string_view kOfBatch = "batch.";  // options of LoaderOptions::batch may be told with it

/// "--threads,--num-workers" stands for the fields threads and num_workers.
void CommandLine::note_fields(const std::string& names) {
  for (std::string_view rest = names; !rest.empty();) {
    const std::string_view name = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), name.size() + 1));
    if (!name.starts_with("--")) continue;  // an argument's name is no option
    std::string field(name.substr(2));
    std::ranges::replace(field, '-', '_');
    fields_[field] = name;
  }
}

void CommandLine::add(const std::string& names, const std::string& help, const char* type,
                      const std::string& shown, const OptionRules& rules,
                      std::function<void(const std::string& text)> take) {
  note_fields(names);
  CLI::Option* option = app_->cli->add_option(
      names,
      [take = std::move(take)](const CLI::results_t& texts) {
        take(texts.front());
        return true;
      },
      help);
  option->type_name(type)->required(rules.required)->group(group_);
  if (!rules.required && !shown.empty()) option->default_str(shown);
}

namespace {

void require_one_of(const OptionRules& rules, const std::string& text, const std::string& name) {
  if (!rules.one_of.empty() && std::ranges::find(rules.one_of, text) == rules.one_of.end())
    throw Error(ErrorCode::kInvalid,
                fmt::format("{} is '{}'; give one of: {}", name, text, fmt::join(rules.one_of, ", ")));
}

}  // namespace

void CommandLine::option(const std::string& names, const std::string& type, const std::string& shown,
                         const std::string& help, const OptionRules& rules,
                         std::function<void(const std::string& text)> take) {
  add(names, help, type.c_str(), shown, rules,
      [take = std::move(take), rules, name = first_name(names), shown](const std::string& text) {
        if (shown.empty()) refuse_empty(text, name);
        require_one_of(rules, text, name);
        take(text);
      });
}

void CommandLine::option(const std::string& names, std::string& value, const std::string& help,
                         const OptionRules& rules) {
  const std::string type = rules.output           ? "PATH"
                           : rules.one_of.empty() ? "TEXT"
                                                  : fmt::format("{}", fmt::join(rules.one_of, "|"));
  if (rules.output) outputs_.push_back({first_name(names), [&value] { return value; }});
  if (rules.dataset) datasets_.push_back({first_name(names), [&value] { return value; }});
  add(names, help, type.c_str(), value, rules,
      [&value, rules, name = first_name(names)](const std::string& text) {
        if (value.empty()) refuse_empty(text, name);
        require_one_of(rules, text, name);
        value = text;
      });
}

void CommandLine::option(const std::string& names, std::filesystem::path& value, const std::string& help,
                         const OptionRules& rules) {
  if (rules.output) outputs_.push_back({first_name(names), [&value] { return value; }});
  add(names, help, "PATH", value.string(), rules,
      [&value, name = first_name(names)](const std::string& text) {
        refuse_empty(text, name);
        value = text;
      });
}

void CommandLine::option(const std::string& names, std::optional<std::string>& value, const std::string& help,
                         const OptionRules& rules) {
  add(names, help, "TEXT", "", rules, [&value, name = first_name(names)](const std::string& text) {
    refuse_empty(text, name);
    value = text;
  });
}

void CommandLine::option(const std::string& names, int& value, const std::string& help,
                         const OptionRules& rules) {
  add(names, help, "NUMBER", shown(value, rules), rules,
      [&value, rules, name = first_name(names)](const std::string& text) {
        value = whole_number<int>(text, name, rules);
      });
}

void CommandLine::option(const std::string& names, std::int64_t& value, const std::string& help,
                         const OptionRules& rules) {
  add(names, help, "NUMBER", shown(value, rules), rules,
      [&value, rules, name = first_name(names)](const std::string& text) {
        value = whole_number<std::int64_t>(text, name, rules);
      });
}

void CommandLine::option(const std::string& names, std::uint64_t& value, const std::string& help,
                         const OptionRules& rules) {
  add(names, help, "NUMBER", std::to_string(value), rules,
      [&value, rules, name = first_name(names)](const std::string& text) {
        value = whole_number<std::uint64_t>(text, name, rules);
      });
}

void CommandLine::option(const std::string& names, std::optional<std::int64_t>& value,
                         const std::string& help, const OptionRules& rules) {
  add(names, help, "NUMBER", "", rules, [&value, rules, name = first_name(names)](const std::string& text) {
    value = whole_number<std::int64_t>(text, name, rules);
  });
}

void CommandLine::option(const std::string& names, double& value, const std::string& help,
                         const OptionRules& rules) {
  add(names, help, "NUMBER", fmt::format("{}", value), rules,
      [&value, rules, name = first_name(names)](const std::string& text) {
        value = real_number(text, name, rules);
      });
}

void CommandLine::option(const std::string& names, std::optional<double>& value, const std::string& help,
                         const OptionRules& rules) {
  add(names, help, "NUMBER", "", rules, [&value, rules, name = first_name(names)](const std::string& text) {
    value = real_number(text, name, rules);
  });
}

void CommandLine::size_option(const std::string& names, std::size_t& value, const std::string& help) {
  add(names, help, "SIZE", value == 0 ? "" : std::to_string(value), {},
      [&value, name = first_name(names)](const std::string& text) { value = parse_size(text, name); });
}

void CommandLine::numbers_option(const std::string& names, std::vector<int>& value, const std::string& help) {
  add(names, help, "NUMBERS", "", {},
      [&value, name = first_name(names)](const std::string& text) { value = parse_numbers(text, name); });
}

void CommandLine::flag(const std::string& names, bool& value, const std::string& help) {
  note_fields(names);
  app_->cli->add_flag(names, value, help)->group(group_);
}

void CommandLine::flag_off(const std::string& names, bool& value, const std::string& help) {
  note_fields(names);
  app_->cli
      ->add_flag_callback(
          names, [&value] { value = false; }, help)
      ->group(group_);
}

void CommandLine::repeatable_option(const std::string& names, const char* type, const std::string& help,
                                    std::function<void(const std::string& text)> take) {
  const auto take_all = [take = std::move(take), name = first_name(names)](const CLI::results_t& texts) {
    for (const std::string& text : texts) {
      refuse_empty(text, name);
      take(text);
    }
    return true;
  };
  note_fields(names);
  CLI::Option* option = app_->cli->add_option(names, take_all, help);
  option->type_name(type)
      ->expected(CLI::detail::expected_max_vector_size)
      ->allow_extra_args(!names.starts_with('-'))  // an argument takes all words that follow it
      ->group(group_);
}

CommandLine& CommandLine::command(const std::string& name, const std::string& description) {
  commands_.emplace_back(new CommandLine(name, *this, description));
  return *commands_.back();
}

void CommandLine::action(std::function<void()> action) { action_ = std::move(action); }

bool CommandLine::parse(int argc, char** argv) {
  try {
    app_->cli->parse(argc, argv);
    given_.assign(argv + 1, argv + argc);
    return true;
  } catch (const CLI::Success& asked) {
    app_->cli->exit(asked);
    return false;
  } catch (const CLI::ParseError& error) {
    throw Error(ErrorCode::kInvalid, fmt::format("{} (see {} --help)", error.what(), name_));
  }
}

bool CommandLine::has(const std::string& option) const {
  return app_->cli->get_option_no_throw(option) != nullptr;
}

bool CommandLine::given(const std::string& option) const {
  const CLI::Option* const found = app_->cli->get_option_no_throw(option);
  return found != nullptr && found->count() > 0;
}

std::vector<std::string> CommandLine::given_options() const {
  std::vector<std::string> names;
  for (const CLI::Option* option : app_->cli->parse_order()) names.push_back(option->get_name());
  return names;
}

void CommandLine::refuse_outputs(const std::vector<std::string>& given) const {
  std::map<fs::path, std::string> taken;
  for (const Output& output : outputs_) {
    const fs::path path = output.path();
    std::error_code ignored;
    const fs::file_status status = fs::status(path, ignored);
    if (path.empty() || fs::is_character_file(status) || fs::is_fifo(status)) continue;
    refuse_inside_dataset(fs::is_directory(status) ? path / "" : path, output.name + ": ");
    const fs::path place = place_of(path);
    for (const Output& dataset : datasets_) {
      if (dataset.path().empty()) continue;
      const fs::path folder = place_of(dataset.path());
      if (std::ranges::mismatch(folder, place).in1 == folder.end())
        throw Error(
            ErrorCode::kInvalid,
            fmt::format("{}: {} lies inside the dataset {} that is made; choose a place outside of it",
                        output.name, path.string(), folder.string()));
    }
    const auto [other, is_new] = taken.try_emplace(place, output.name);
    if (!is_new)
      throw Error(ErrorCode::kInvalid, fmt::format("{} and {} both name {}; give each a file of its own",
                                                   other->second, output.name, path.string()));
    if (fs::is_regular_file(status) && times_named(path, given) > 1)
      throw Error(ErrorCode::kInvalid,
                  fmt::format("{} is {}, which is named as a file to read too; choose another place",
                              output.name, path.string()));
  }
}

void CommandLine::run() { run(given_); }

void CommandLine::run(const std::vector<std::string>& given) {
  for (const auto& command : commands_) {
    if (command->app_->cli->parsed()) return command->run(given);
  }
  if (action_) {
    refuse_outputs(given);
    return action_();
  }
  std::vector<std::string> names;
  for (const auto& command : commands_) names.push_back(command->app_->cli->get_name());
  throw Error(ErrorCode::kInvalid,
              fmt::format("name a command: {} (see {} --help)", fmt::join(names, ", "), name_));
}

const CommandLine& CommandLine::chosen() const {
  for (const auto& command : commands_)
    if (command->app_->cli->parsed()) return command->chosen();
  return *this;
}

const std::string* CommandLine::option_for(std::string_view field) const {
  auto found = fields_.find(field);
  if (found == fields_.end() && field.starts_with(kOfBatch))
    found = fields_.find(field.substr(kOfBatch.size()));
  return found == fields_.end() ? nullptr : &found->second;
}

std::string CommandLine::in_own_words(std::string_view message) const {
  const CommandLine& line = chosen();
  const auto option = [&line](std::string_view field) {
    const std::string* const name = line.option_for(field);
    return name != nullptr ? *name : std::string(field);
  };
  const auto file = [&line](std::string_view field) {
    const std::string* const name = line.option_for(field);
    if (name == nullptr || !line.given(*name)) return std::string();
    return fmt::format("{}: {}: ", *name, line.app_->cli->get_option(*name)->results().front());
  };
  return spelled(message, option, file);
}

}  // namespace hopfeed
