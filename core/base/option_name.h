// What messages call the library's options: by their fields, as C++ users know them ("batch_size"), or, in a
// program, as its user typed them ("--batch-size"). A program says once how, before it starts anything
// (core/program/command_line.cc); only messages depend on it.
#pragma once
#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace hopfeed {

using OptionNames = std::map<std::string, std::string, std::less<>>;  // field -> option

/// From now on, in this process. Not to be called while another thread may make a message.
void name_options(OptionNames given);
/// The option of a field ("time", "batch.link"), where the program has one; else the field as it stands.
/// Messages ask for it where a field's name is an English word too, and with_option_names() could not tell.
std::string option_name(std::string_view field);
/// `message` with the names of fields replaced by those of options. A word is one where it can be
/// nothing else ("batch_size", "batch.link"), and an English word ("time") where it stands alone in
/// parentheses, behind "option", or at the head of "time is ...". What stands in quotes or is part of a path
/// stays.
std::string with_option_names(std::string_view message);

/// A program has read the values of this field from a file. Likewise before anything is started.
void note_option_file(std::string_view field, std::string_view file);
/// What messages about such values begin with: "--seeds: ids.npy: ", or "" where they came otherwise.
std::string option_file(std::string_view field);

}  // namespace hopfeed
