#include "support/paths.hpp"

namespace dovetail::testing {

const char* const source_directory = DOVETAIL_SOURCE_DIR;
const char* const command_path = DOVETAIL_COMMAND;
const char* const examples_directory = DOVETAIL_EXAMPLES;

}  // namespace dovetail::testing
