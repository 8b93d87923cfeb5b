// The options and commands of a program. CLI11 stands behind it and is seen by command_line.cc alone: it
// costs as much to compile as all the rest of a program, and its own conversions let numbers wrap and clamp.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hopfeed {

/// What an option demands of its value.
struct OptionRules {
  bool required = false;
  std::int64_t min = std::numeric_limits<std::int64_t>::min();  // of whole numbers
  std::int64_t max = std::numeric_limits<std::int64_t>::max();
  bool positive = false;            // of any number
  std::vector<std::string> one_of;  // of texts; empty: any
  bool output = false;   // a file or folder that the program writes, by itself and outside of datasets
  bool dataset = false;  // a folder that the program makes a dataset of, so that no output may lie in it
};

/// Names are as in CLI11: "--seed", "--threads,--num-workers", "DIR" for an argument without a name. What the
/// value holds when the option is added is its default, and --help shows it (std::optional: none; a number
/// that the option would refuse: none).
class CommandLine {
 public:
  CommandLine(const std::string& program, const std::string& description);
  ~CommandLine();
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  void option(const std::string& names, std::string& value, const std::string& help,
              const OptionRules& rules = {});
  void option(const std::string& names, std::filesystem::path& value, const std::string& help,
              const OptionRules& rules = {});
  void option(const std::string& names, std::optional<std::string>& value, const std::string& help,
              const OptionRules& rules = {});
  void option(const std::string& names, int& value, const std::string& help, const OptionRules& rules = {});
  void option(const std::string& names, std::int64_t& value, const std::string& help,
              const OptionRules& rules = {});
  void option(const std::string& names, std::uint64_t& value, const std::string& help,
              const OptionRules& rules = {});
  void option(const std::string& names, std::optional<std::int64_t>& value, const std::string& help,
              const OptionRules& rules = {});
  void option(const std::string& names, double& value, const std::string& help,
              const OptionRules& rules = {});
  void option(const std::string& names, std::optional<double>& value, const std::string& help,
              const OptionRules& rules = {});
  /// Bytes: 1000000, 512M, 4G. A default of 0 is not shown, it stands for a choice made later.
  void size_option(const std::string& names, std::size_t& value, const std::string& help);
  /// Numbers of cores, of partitions: 0,2-3.
  void numbers_option(const std::string& names, std::vector<int>& value, const std::string& help);
  void flag(const std::string& names, bool& value, const std::string& help);
  /// A flag that turns off what is on by default.
  void flag_off(const std::string& names, bool& value, const std::string& help);
  /// An option whose text `take` reads. `type` and `shown`, the default, are what --help shows; of the rules
  /// one_of holds.
  void option(const std::string& names, const std::string& type, const std::string& shown,
              const std::string& help, const OptionRules& rules,
              std::function<void(const std::string& text)> take);
  /// The option is the field of this name in messages of the library.
  void stands_for(const std::string& option, const std::string& field) { fields_[field] = option; }
  /// An option that may be given again and again, or an argument of any number of words; `take` gets each
  /// text, in order. `type` is what --help shows: "NAME=FILE".
  void repeatable_option(const std::string& names, const char* type, const std::string& help,
                         std::function<void(const std::string& text)> take);

  /// While it lives, options that are added stand under this heading of --help.
  class Group {
   public:
    Group(CommandLine& line, const std::string& heading)
        : line_(line), before_(std::exchange(line.group_, heading)) {}
    ~Group() { line_.group_ = before_; }
    Group(const Group&) = delete;
    Group& operator=(const Group&) = delete;

   private:
    CommandLine& line_;
    std::string before_;
  };

  /// A command behind this one; it lives as long as this one does.
  CommandLine& command(const std::string& name, const std::string& description);
  /// What is done where this command (without commands: this program) is chosen.
  void action(std::function<void()> action);

  const std::string& name() const { return name_; }
  /// Whether this command has this option ("--seed").
  bool has(const std::string& option) const;
  /// Whether this option ("--seed") of this command was given. From parse() on.
  bool given(const std::string& option) const;
  /// The options of this command that were given, in the order typed. From parse() on.
  std::vector<std::string> given_options() const;
  /// False where --help was asked for, and shown. Throws kInvalid naming the option or argument.
  bool parse(int argc, char** argv);
  /// Does what was chosen. Throws kInvalid where a command is missing, or an output would come to lie in a
  /// dataset, in the place of another, or of a file that is named besides, as what is read.
  void run();
  /// A message of the library, with its marks (core/base/error.h), in the words of who typed the command that
  /// was chosen: the field seed_times is --seed-times, and what is wrong with values of a file begins with
  /// "--seeds: ids.npy: ". A field without an option stays as it is. From parse() on, by any thread.
  std::string in_own_words(std::string_view message) const;

 private:
  struct App;
  CommandLine(const std::string& name, CommandLine& parent, const std::string& description);
  /// An option whose text `take` reads; `shown` is its default.
  void add(const std::string& names, const std::string& help, const char* type, const std::string& shown,
           const OptionRules& rules, std::function<void(const std::string& text)> take);

  void note_fields(const std::string& names);
  /// The command whose action run() does.
  const CommandLine& chosen() const;
  /// The option for a field ("time", "batch.link"); nullptr where there is none.
  const std::string* option_for(std::string_view field) const;
  void refuse_outputs(const std::vector<std::string>& given) const;
  void run(const std::vector<std::string>& given);

  struct Output {
    std::string name;
    std::function<std::filesystem::path()> path;  // empty: not asked for
  };
  std::string group_ = "Options";
  std::string name_;  // "hopfeed-partition import"
  std::unique_ptr<App> app_;
  std::vector<std::unique_ptr<CommandLine>> commands_;
  std::vector<Output> outputs_, datasets_;
  std::function<void()> action_;
  std::vector<std::string> given_;                          // what parse() was given
  std::map<std::string, std::string, std::less<>> fields_;  // of the library -> the option here that sets it
};

}  // namespace hopfeed
