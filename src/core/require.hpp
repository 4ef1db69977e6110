// Checks of arguments that several components share. Each throws std::invalid_argument or
// std::out_of_range, with the limit in the text.
#pragma once

#include <cstddef>
#include <string_view>

#include "dovetail/clock.hpp"

namespace dovetail::core {

/// Requires UTF-8 without NUL. Returns the number of characters.
std::size_t require_text(const char* what, std::string_view text);
void require_length(const char* what, std::string_view text, std::size_t limit);
/// Requires a time in the years 1 to 9999, which both engines can store.
void require_time(const char* what, WallTime time);
/// Checks the size of a batch or a page.
void require_batch_size(const char* what, int size);

}  // namespace dovetail::core
