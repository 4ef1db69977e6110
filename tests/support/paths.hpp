// The places of the files that tests need. They are variables of one source file, not macros of
// all, so that clones in different directories share compilations.
#pragma once

namespace dovetail::testing {

extern const char* const source_directory;    ///< The root of the project.
extern const char* const command_path;        ///< The `dovetail` command.
extern const char* const examples_directory;  ///< The compiled examples.

}  // namespace dovetail::testing
