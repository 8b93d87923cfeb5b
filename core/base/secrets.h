// Reads secrets that a user hands over: the token of servers in the environment, tokens and keys in files.
#pragma once
#include <string>

namespace hopfeed {

/// This variable has the token where no file is named.
inline constexpr const char* kTokenVariable = "HOPFEED_TOKEN";

/// Programs call it first of all: plugins and other programs that they start do not see the token.
void take_token_out_of_environment();
/// Returns what the variable says, or said before it was taken out; empty: nothing.
std::string environment_token();

/// Returns who besides its owner may open a file with a secret, and what to do: "'token' may be read by its
/// group and by all (mode 0644); chmod 600 it". Empty: nobody, or it is no file.
std::string open_to_others(const std::string& file);

}  // namespace hopfeed
