//! What ExOS runs: the program, its arguments and what it finds around itself, from the options and from the image.
//!
//! Options come before what the image says, as in docker: arguments replace the image's command and keep its entry
//! point; `--entrypoint` replaces both.

use crate::command_record::ProgramCommand;
use crate::failure::Result;
use crate::root::user::{self, User};
use crate::root::{Configuration, Kind, Node, Root, Tree};
use crate::terminal;

use super::SEARCH;
use super::options::Options;
use super::start_program;

/// The command, after a look whether it can run. Adds to the root what it needs: the directory that the image names,
/// and the program that changes the user.
///
/// # Errors
/// When the root has no such program or user.
pub fn prepare(options: &Options, root: &mut Root) -> Result<ProgramCommand> {
    let terminal = terminal::on_both_sides();
    let wanted = &root.configuration;
    let mut arguments = arguments(options, wanted);
    let named = options.user.as_ref().unwrap_or(&wanted.user);
    let user = if named.is_empty() { User::root() } else { user::find(&root.tree, named)? };
    let environment = environment(options, wanted, &user, terminal);
    let search = environment.iter().find_map(|variable| variable.strip_prefix("PATH=")).unwrap_or(SEARCH);
    let working_directory = match (&options.workdir, wanted.working_dir.as_str()) {
        (Some(given), _) => given.clone(),
        (None, "") => "/".to_owned(),
        (None, of_image) => {
            make_directory(&mut root.tree, of_image);
            of_image.to_owned()
        }
    };
    arguments[0] = root.tree.find_program(&arguments[0], search, &working_directory)?;
    if !user.is_root() {
        arguments.insert(0, start_program::add_to(&mut root.tree, &user));
    }
    Ok(ProgramCommand { arguments, environment, working_directory, terminal, options: options.of_exos() })
}

fn arguments(options: &Options, wanted: &Configuration) -> Vec<String> {
    let mut arguments = match &options.entrypoint {
        Some(entry) => vec![entry.clone()],
        None => wanted.entrypoint.clone(),
    };
    if !options.program.is_empty() {
        arguments.extend(options.program.iter().cloned());
    } else if options.entrypoint.is_none() {
        arguments.extend(wanted.cmd.iter().cloned());
    }
    if arguments.is_empty() {
        arguments.push("/bin/sh".into());
    }
    arguments
}

fn environment(options: &Options, wanted: &Configuration, user: &User, terminal: bool) -> Vec<String> {
    let mut environment = vec![format!("PATH={SEARCH}"), format!("HOME={}", user.home)];
    if terminal {
        environment.push(format!("TERM={}", std::env::var("TERM").unwrap_or_else(|_| "linux".into())));
    }
    environment.extend(wanted.env.iter().chain(&options.env).cloned());
    last_of_each(environment)
}

/// Of several variables of one name the last.
fn last_of_each(variables: Vec<String>) -> Vec<String> {
    let name = |variable: &str| variable.split_inclusive('=').next().unwrap_or_default().to_owned();
    let mut kept: Vec<String> = Vec::new();
    for variable in variables {
        kept.retain(|other| name(other) != name(&variable));
        kept.push(variable);
    }
    kept
}

/// As docker does with an image's working directory that no layer has.
fn make_directory(tree: &mut Tree, path: &str) {
    if tree.follow(path.as_bytes()).is_none() {
        let place = tree.place_of(path.trim_matches('/').as_bytes());
        tree.insert(&place, Node::of_root(Kind::Directory, 0o755));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_variables_the_last_counts() {
        let variables = ["PATH=/bin", "A=1", "AB=2", "A=", "PATH=x=y"].map(str::to_owned).to_vec();
        assert_eq!(last_of_each(variables), ["AB=2", "A=", "PATH=x=y"]);
    }

    #[test]
    fn arguments_replace_the_command_and_an_entry_point_both() {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            options: Options,
        }
        let text = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let image = Configuration { entrypoint: text(&["/e", "-x"]), cmd: text(&["c"]), ..Configuration::default() };
        for (line, expected) in [
            ("run --image i", &["/e", "-x", "c"][..]),
            ("run --image i -- d f", &["/e", "-x", "d", "f"]),
            ("run --image i --entrypoint /n", &["/n"]),
            ("run --image i --entrypoint /n -- d", &["/n", "d"]),
        ] {
            let options = <Line as clap::Parser>::try_parse_from(line.split(' ')).ok().unwrap().options;
            assert_eq!(arguments(&options, &image), text(expected), "{line}");
        }
    }
}
