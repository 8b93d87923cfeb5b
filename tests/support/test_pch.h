// Nearly every test includes these, compiled once per build: GoogleTest and the library's larger headers.
// Tests still include what they use, so that one built without it (CMAKE_DISABLE_PRECOMPILE_HEADERS) compiles
// too.
#pragma once
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <random>
#include <set>
#include <span>
#include <sstream>
#include <string>
#include <thread>
#include <variant>
#include <vector>
