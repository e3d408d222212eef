//! Links that change while they are read through.

use std::{
    fs,
    os::unix::fs::symlink,
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use crate::project::Project;

/// How often each test reads, and how often at most if it was not caught outside by then.
const READS: usize = 1_000;
const READS_MAX: usize = 10 * READS;

fn project() -> Project {
    let project = Project::new(&[("in/f.txt", "inside")]);
    fs::create_dir(project.base.join("out")).unwrap();
    fs::write(project.base.join("out/f.txt"), "secret").unwrap();
    project
}

/// Reads a path over and over while a thread swaps what it leads through.
fn never_outside(project: &Project, path: &str, swap: impl Fn(usize) + Sync) {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            (0..).take_while(|_| !is_over.load(Ordering::Relaxed)).for_each(&swap);
        });
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let (mut reads, mut refused) = (0, 0);
        while reads < READS || refused == 0 && reads < READS_MAX {
            let text = runtime.block_on(project.read(path));
            reads += 1;
            refused += usize::from(text.is_err());
            if text.is_ok_and(|text| text != "inside") {
                is_over.store(true, Ordering::Relaxed);
                panic!("what is outside was shown");
            }
        }
        is_over.store(true, Ordering::Relaxed);
    });
}

/// Makes `link` lead elsewhere in one act.
fn relink(project: &Project, link: &str, to: &Path) {
    let spare = project.base.join("spare");
    symlink(to, &spare).unwrap();
    fs::rename(&spare, project.root.join(link)).unwrap();
}

#[test]
fn a_file_link_swapped_during_reads_never_shows_what_is_outside() {
    let project = project();
    relink(&project, "link", "in/f.txt".as_ref());
    never_outside(&project, "link", |i| {
        relink(&project, "link", ["../out/f.txt", "in/f.txt"][i % 2].as_ref());
    });
}

#[test]
fn a_directory_link_swapped_during_reads_never_shows_what_is_outside() {
    let project = project();
    relink(&project, "link", "in".as_ref());
    never_outside(&project, "link/f.txt", |i| {
        relink(&project, "link", ["../out", "in"][i % 2].as_ref());
    });
}

#[test]
fn an_absolute_link_swapped_during_reads_never_shows_what_is_outside() {
    let project = project();
    let places = [project.base.join("out"), project.root.join("in")];
    relink(&project, "link", &places[1]);
    never_outside(&project, "link/../in/../link/f.txt", |i| {
        relink(&project, "link", &places[i % 2]);
    });
}

#[test]
fn a_directory_swapped_for_a_link_during_reads_never_shows_what_is_outside() {
    let project = project();
    let (place, away) = (project.root.join("in"), project.root.join("away"));
    never_outside(&project, "in/f.txt", |_| {
        fs::rename(&place, &away).unwrap();
        symlink("../out", &place).unwrap();
        fs::remove_file(&place).unwrap();
        fs::rename(&away, &place).unwrap();
    });
}
