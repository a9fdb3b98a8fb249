# -*- coding: utf-8 -*-
"""The words from which `specification` makes titles, people and rooms (pure)."""
from __future__ import unicode_literals

TOPICS = (
    'Accelerator Physics', 'Astroparticle Physics', 'Atomic Spectroscopy',
    'Beam Instrumentation', 'Biophysics', 'Calorimetry', 'Cloud Computing',
    'Complex Systems', 'Computational Chemistry', 'Condensed Matter',
    'Control Systems', 'Cosmic Rays', 'Cosmology', 'Cryogenics',
    'Dark Matter Searches', 'Data Acquisition', 'Data Preservation',
    'Detector Physics', 'Digital Libraries', 'Distributed Databases',
    'Electroweak Physics', 'Exotic Nuclei', 'Flavour Physics',
    'Free Electron Lasers', 'Fusion Energy', 'Gaseous Detectors',
    'Gravitational Waves', 'Grid Operations', 'Hadron Therapy',
    'Heavy Ion Collisions', 'High Performance Computing', 'Higgs Physics',
    'Lattice Field Theory', 'Linear Colliders', 'Materials Science',
    'Medical Imaging', 'Monte Carlo Generators', 'Neutrino Physics',
    'Nuclear Astrophysics', 'Nuclear Data', 'Open Access Publishing',
    'Photon Detection', 'Plasma Acceleration', 'Polarised Targets',
    'Quantum Information', 'Radiation Protection', 'Radio Astronomy',
    'Science Education', 'Semiconductor Trackers', 'Software Engineering',
    'Spin Physics', 'Standard Model Physics', 'String Theory',
    'Superconducting Magnets', 'Supersymmetry', 'Synchrotron Radiation',
    'Technology Transfer', 'Top Quark Physics', 'Trigger Systems',
    'Vacuum Technology',
)

# the categories above topics, when there are so many topics that they are grouped
FIELDS = (
    'Particles and Fields', 'Instruments and Methods', 'Nuclei and Atoms',
    'Earth and Space', 'Matter and Light', 'Data and Networks',
    'Energy and Environment', 'Life and Medicine',
)

# the categories below a topic, when there are so many that topics are grouped
SERIES = (
    'Annual Conferences', 'Collaboration Meetings', 'Doctoral Schools',
    'Expert Panels', 'International Workshops', 'Project Reviews',
    'Regional Conferences', 'Summer Schools', 'Symposia', 'Topical Workshops',
    'Tutorials', 'Users Meetings',
)

CONFERENCE_KINDS = (
    'Conference on {topic}', 'European Symposium on {topic}',
    'International Conference on {topic}', 'International Workshop on {topic}',
    'Joint Meeting on {topic}', 'School on {topic}', 'Symposium on {topic}',
    'Topical Meeting on {topic}', 'Workshop on Advances in {topic}',
    'Workshop on Computing for {topic}', 'Workshop on the Future of {topic}',
)

MEETING_KINDS = (
    'Board Meeting on {topic}', 'Collaboration Meeting on {topic}', 'Group Meeting on {topic}',
    'Planning Meeting on {topic}', 'Review Meeting on {topic}', 'Working Group on {topic}',
)

LECTURE_KINDS = (
    'a lecture on {subject}', 'a seminar on {subject}', 'an introduction to {subject}',
    'recent progress with {subject}', 'the history of {subject}', 'what we know of {subject}',
)

SESSION_FORMS = (
    'Discussion of {subject}', 'Focus on {subject}', 'Parallel session: {subject}',
    'Plenary session: {subject}', 'Posters on {subject}', 'Round table on {subject}',
)

# text and background of sessions in timetables
SESSION_COLOURS = (
    ('#1d2b3a', '#d6e6f5'), ('#2d2410', '#f6e7c1'), ('#13301b', '#d3efdb'), ('#331326', '#f3d5e6'),
    ('#202020', '#e4e4e4'), ('#1b1b40', '#dcdcfa'), ('#3a1a12', '#fadcd3'), ('#0f2e2e', '#cdeeee'),
)

# what a link to a material is called
MATERIAL_NAMES = (
    'as shown', 'corrected version', 'extended version', 'long version', 'preliminary version',
    'short version', 'with all figures', 'without animations',
)

# city, country, time zone; all changes of these clocks since 2003 were on a Sunday
PLACES = (
    ('Aarhus', 'Denmark', 'Europe/Copenhagen'),
    ('Belém', 'Brazil', 'America/Belem'),
    ('Bogotá', 'Colombia', 'America/Bogota'),
    ('Chicago', 'United States', 'America/Chicago'),
    ('Genève', 'Switzerland', 'Europe/Zurich'),
    ('Göteborg', 'Sweden', 'Europe/Stockholm'),
    ('Hamburg', 'Germany', 'Europe/Berlin'),
    ('Kraków', 'Poland', 'Europe/Warsaw'),
    ('Kyōto', 'Japan', 'Asia/Tokyo'),
    ('København', 'Denmark', 'Europe/Copenhagen'),
    ('Lisboa', 'Portugal', 'Europe/Lisbon'),
    ('Melbourne', 'Australia', 'Australia/Melbourne'),
    ('Orsay', 'France', 'Europe/Paris'),
    ('Praha', 'Czech Republic', 'Europe/Prague'),
    ('Reykjavík', 'Iceland', 'Atlantic/Reykjavik'),
    ('Santiago de Compostela', 'Spain', 'Europe/Madrid'),
    ('Taipei', 'Taiwan', 'Asia/Taipei'),
    ('Trieste', 'Italy', 'Europe/Rome'),
    ('Vancouver', 'Canada', 'America/Vancouver'),
    ('Zürich', 'Switzerland', 'Europe/Zurich'),
)

ROOM_KINDS = ('Auditorium', 'Council Chamber', 'Lecture Hall', 'Seminar Room', 'Video Room')

FIRST_NAMES = (
    'Agnieszka', 'Amélie', 'Ana', 'Anders', 'Björn', 'Chiara', 'Claire',
    'Daniel', 'Dimitri', 'Elif', 'Émile', 'Eva', 'Fatima', 'François', 'Giulia',
    'Hanna', 'Haruki', 'Ingrid', 'Ivan', 'Jan', 'João', 'José', 'Katarína',
    'Léa', 'Łukasz', 'Luis', 'María', 'Mark', 'Mei', 'Miloš', 'Nadia', 'Niels',
    'Olga', 'Pedro', 'Priya', 'Rachel', 'Saoirse', 'Søren', 'Thomas', 'Uwe',
    'Valérie', 'Wei', 'Yuki', 'Zoë', 'Zuzana',
)

FAMILY_NAMES = (
    'Andersen', 'Bauer', 'Bianchi', 'Björklund', 'Černý', 'Chen', 'Dąbrowski',
    'Dubois', 'Fernández', 'Fischer', 'García', 'Gonçalves', 'Haugen',
    'Ivanova', 'Jørgensen', 'Kaya', 'Kowalska', 'Kumar', 'Lefèvre', 'Lindström',
    'Martin', 'Moreau', 'Müller', 'Nakamura', 'Nowak', 'Núñez', 'O’Brien',
    'Papadopoulos', 'Petrov', 'Quintero', 'Ricci', 'Rossi', 'Sánchez', 'Sato',
    'Schäfer', 'Škoda', 'Smith', 'Szabó', 'Tanaka', 'Þórsson', 'Turner',
    'Vögeli', 'Walker', 'Yılmaz', 'Zimmermann',
)

PERSON_TITLES = ('Dr.', 'Dr.', 'Mr.', 'Mrs.', 'Ms.', 'Prof.')

INSTITUTE_KINDS = (
    'University of {city}', '{city} Institute of Technology',
    'National Laboratory, {city}', 'Academy of Sciences, {city}',
)

CONTRIBUTION_FORMS = (
    'A fast method for {subject}', 'A new look at {subject}',
    'Commissioning of {subject}', 'Experience with {subject}',
    'First results on {subject}', 'Introduction to {subject}',
    'Limits of {subject}', 'Measurement of {subject}',
    'Outlook for {subject}', 'Performance of {subject}',
    'Precision tests of {subject}', 'Simulation of {subject}',
    'Status of {subject}', 'Systematic effects in {subject}',
    'The design of {subject}', 'Towards {subject}',
)

SUBJECTS = (
    'a large area silicon tracker', 'background rejection at low energies',
    'beam loss monitoring', 'charged particle identification',
    'cold atom interferometers', 'cryogenic bolometers',
    'distributed analysis', 'electron cloud effects', 'fast timing detectors',
    'flavour tagging', 'high gradient cavities', 'jet reconstruction',
    'liquid argon time projection chambers', 'long term archiving',
    'low noise readout', 'luminosity calibration', 'missing energy signatures',
    'multivariate event selection', 'muon cooling', 'neutron shielding',
    'online event filtering', 'optical data links', 'parallel track fitting',
    'photon induced processes', 'positron sources', 'radiation damage',
    'rare decay modes', 'remote operation', 'scintillating fibres',
    'storage federation', 'structure functions', 'superconducting undulators',
    'the alignment system', 'the central trigger', 'the conditions database',
    'the forward spectrometer', 'the injector chain', 'the power converters',
    'ultra high vacuum coatings', 'underground laboratories',
)

SENTENCES = (
    'The aim is to compare what the groups have learnt since the last meeting.',
    'Both established results and work in progress are presented.',
    'Emphasis is on methods that others can apply to their own data.',
    'Measurements are compared with simulation over the whole energy range.',
    'Open questions are collected and discussed at the end.',
    'Particular attention is paid to the treatment of uncertainties.',
    'Plans for the coming years are set against the resources at hand.',
    'The programme consists of invited talks and short contributions.',
    'The results agree with earlier work where they overlap.',
    'We describe the set-up, the first data and what remains to be done.',
)
